"""Verifiers: one file per contract, each turning a sandbox's final state into a Score."""
