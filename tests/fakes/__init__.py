"""Stand-ins for outside systems, spoken to as the real ones are."""
