"""examples/trainer: its arithmetic, its model on a tiny Llama, and whole runs at a real Atropos."""
