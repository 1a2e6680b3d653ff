"""What a hostile agent does in its pod, by kind; tests/cluster/test_attacks.py runs all of it."""
