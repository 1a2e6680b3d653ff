"""The sandbox: its pod, its network policy, and the session that talks to the runner in it."""
