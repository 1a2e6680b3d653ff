"""Crashes daemons of the built-in cluster and starts them again: `... tests.testbed.restart NAME`.

It runs as a program of its own, so that the daemon's parent is gone, as after `up`.
"""

import sys
import time

from tests.testbed import gobuild
from tests.testbed.daemons import Part, parts
from tests.testbed.errors import TestbedError
from tests.testbed.processes import find, start, stop
from tests.testbed.shell import wait_until

READY_SECONDS = 120.0


def restart(name: str) -> None:
    """Kill the daemon without grace, start it as it was, and wait until it answers."""
    part = _part(name)
    running = find(part.daemon)
    if running is not None:
        stop([running], grace_seconds=0)
    deadline = time.monotonic() + READY_SECONDS
    while not _starts(part, deadline - time.monotonic()):
        if time.monotonic() > deadline:
            raise TestbedError(f"{name} does not answer after its restart", log=part.daemon.log)


def _starts(part: Part, seconds: float) -> bool:
    """Whether it answers; it may end at once while the killed one still holds its port."""
    started = start(part.daemon)
    wait_until(lambda: started.poll() is not None or part.ready(), seconds=seconds)
    return started.poll() is None and part.ready()


def _part(name: str) -> Part:
    programs = {module.name: gobuild.ensure(module, print) for module in gobuild.BUILT_IN}
    found = {part.daemon.name: part for part in parts(programs)}
    if name not in found:
        raise TestbedError(f"there is no daemon {name}; there are {', '.join(found)}")
    return found[name]


if __name__ == "__main__":
    try:
        restart(*sys.argv[1:])
    except TestbedError as error:
        print(error.render(), file=sys.stderr)
        sys.exit(1)
