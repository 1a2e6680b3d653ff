"""The web view in a real Chromium."""
