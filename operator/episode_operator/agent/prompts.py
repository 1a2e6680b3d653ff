"""What the model is told before the task."""

from typing import Any

DEFAULT_SYSTEM_PROMPT = (
    "You are an agent in a Linux sandbox. Work on the task with the tools you are given, check "
    "your work, and when the task is done answer without calling a tool."
)


def opening(
    system_prompt: str | None, instruction: str, *, first: bool = True
) -> list[dict[str, Any]]:
    """The messages that open an episode, or a later step of it."""
    user = {"role": "user", "content": instruction}
    if not first:
        return [user]
    return [{"role": "system", "content": system_prompt or DEFAULT_SYSTEM_PROMPT}, user]
