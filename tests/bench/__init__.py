"""Measurements: `python -m tests.bench exec`. What they mean is in docs/benchmarks.md."""
