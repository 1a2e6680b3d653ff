"""Turns tasks into Episodes and results into training groups."""
