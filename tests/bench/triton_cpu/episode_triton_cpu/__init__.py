"""Found by its entry points; nothing of ours imports it."""
