"""Where groups go: trainers and datasets."""
