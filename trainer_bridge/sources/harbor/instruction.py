"""instruction.md without the lines that mark benchmark data."""

import re

_MARK = re.compile(r"<!--.*canary.*-->|#.*canary.*", re.IGNORECASE)


def without_canary(text: str) -> str:
    """The text without leading comments that name a canary, and without leading empty lines."""
    lines = text.split("\n")
    start = 0
    while start < len(lines) and _MARK.fullmatch(lines[start].strip()):
        start += 1
    while start < len(lines) and not lines[start].strip():
        start += 1
    return "\n".join(lines[start:])
