"""Running other programs: errors carry the output, downloads are tried again."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.testbed.errors import TestbedError

DOWNLOAD_ATTEMPTS = 4


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    hint: str | None = None,
    timeout_seconds: float | None = None,
) -> str:
    """Run to the end, return the standard output; a failure is a TestbedError with the output."""
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=env,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
        )
    except FileNotFoundError as error:
        raise TestbedError(f"{argv[0]} is not installed", hint=hint) from error
    except subprocess.TimeoutExpired as error:
        raise TestbedError(f"{' '.join(argv)} took over {timeout_seconds} s", hint=hint) from error
    if done.returncode != 0:
        output = (done.stderr.strip() or done.stdout.strip())[-3000:]
        raise TestbedError(f"{' '.join(argv)} exited {done.returncode}:\n{output}", hint=hint)
    return done.stdout


def succeeds(argv: Sequence[str], *, timeout_seconds: float = 20.0) -> bool:
    """Whether the program is there and exits 0 in time."""
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            check=False,
            timeout=timeout_seconds,
            stdin=subprocess.DEVNULL,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def download(action: Callable[[], str], say: Callable[[str], None]) -> str:
    """Do something that needs the network, up to four times, 2, 4 and 8 seconds apart."""
    for attempt in range(1, DOWNLOAD_ATTEMPTS):
        try:
            return action()
        except TestbedError as error:
            pause = 2**attempt
            say(f"attempt {attempt} failed ({str(error)[-200:]}), again in {pause} s")
            time.sleep(pause)
    return action()


def wait_until(ready: Callable[[], bool], *, seconds: float, poll_seconds: float = 0.1) -> bool:
    """Poll until `ready` holds; False when the time is over."""
    deadline = time.monotonic() + seconds
    while True:
        if ready():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(poll_seconds)
