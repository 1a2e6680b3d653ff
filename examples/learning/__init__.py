"""The learning proof: a model that gets better through Episodes. `make learn` runs it."""
