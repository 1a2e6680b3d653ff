"""Performs what lifecycle decides: one asyncio task for each live Episode."""
