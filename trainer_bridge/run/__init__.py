"""A run: its groups, from the first Episode to the delivery, resumable at any moment."""
