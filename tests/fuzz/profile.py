"""How hypothesis runs in the fuzz tests: the same examples each time, and no clock that judges."""

from hypothesis import settings

PROFILE = settings(derandomize=True, deadline=None, database=None, max_examples=200)
