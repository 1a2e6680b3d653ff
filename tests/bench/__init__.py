"""Measurements, `python -m tests.bench --help`. What they mean is in docs/benchmarks.md."""
