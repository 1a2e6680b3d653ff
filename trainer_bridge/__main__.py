"""`python -m trainer_bridge`."""

from trainer_bridge.cli import app

app()
