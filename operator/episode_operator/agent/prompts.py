"""What the model is told before the task."""

from typing import Any

DEFAULT_SYSTEM_PROMPT = (
    "You are an agent in a Linux sandbox. Work on the task with the tools you are given, check "
    "your work, and when the task is done answer without calling a tool."
)


def opening(system_prompt: str | None, instruction: str) -> list[dict[str, Any]]:
    """The first messages of an episode."""
    return [
        {"role": "system", "content": system_prompt or DEFAULT_SYSTEM_PROMPT},
        {"role": "user", "content": instruction},
    ]
