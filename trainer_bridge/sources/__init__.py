"""Task sources: each turns rows of a dataset into Episodes."""
