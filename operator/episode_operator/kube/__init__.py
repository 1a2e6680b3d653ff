"""The API server: credentials, and a small client of raw JSON objects."""
