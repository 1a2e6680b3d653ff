"""Agents: who acts in the sandbox. The model's loop, the oracle, the scripted list of calls."""
