"""Being asked to end."""

import signal
import time
from typing import Final

_LOOK_SECONDS: Final = 0.1


class Stopping:
    """Whether the run was asked to end.

    No threading.Event: its lock may be held by what a signal interrupts.
    """

    def __init__(self) -> None:
        self.requested = False

    def on_signals(self) -> None:
        """Take SIGTERM and SIGINT as requests."""
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, lambda *_: self.request())

    def request(self) -> None:
        """Ask to end."""
        self.requested = True

    def wait(self, seconds: float) -> None:
        """Wait so long, or until the run is asked to end."""
        end = time.monotonic() + seconds
        while not self.requested and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
