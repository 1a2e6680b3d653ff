"""Kubernetes operator for sandboxed agent episodes."""
