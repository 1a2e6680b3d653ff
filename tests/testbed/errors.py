"""The one error that the testbed shows to a person: what failed, what to do, what the log says."""

from pathlib import Path

LOG_LINES = 25


class TestbedError(Exception):
    """A failure with advice; `log` names the file whose last lines explain it."""

    __test__ = False  # the name starts with Test: not a test class

    def __init__(self, message: str, *, hint: str | None = None, log: Path | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.log = log

    def render(self) -> str:
        """The message, the end of the log and the advice, as plain text."""
        parts = [f"testbed: {self}"]
        if self.log is not None and self.log.exists():
            lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
            parts += [f"--- last lines of {self.log}", *lines, "---"]
        if self.hint:
            parts.append(f"What to do: {self.hint}")
        return "\n".join(parts)
