"""Running programs: what they say on failure is shown, downloads are tried again."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

DOWNLOAD_ATTEMPTS = 4
CACHE = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "episode-operator" / "images"
)


class BuildError(Exception):
    """A program failed, or something that is needed is missing; the text says what."""


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> str:
    """Run to the end and return the standard output; a failure is a BuildError with the output."""
    environment = None if env is None else {**os.environ, **env}
    try:
        done = subprocess.run(
            argv, cwd=cwd, env=environment, input=stdin, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise BuildError(f"{argv[0]} is not installed") from error
    if done.returncode != 0:
        command = " ".join(str(part) for part in argv)
        output = (done.stdout + done.stderr).strip()[-4000:]
        raise BuildError(f"{command} exited {done.returncode}:\n{output}")
    return done.stdout


def download(action: Callable[[], str]) -> str:
    """Do something that needs the network, up to four times, 2, 4 and 8 seconds apart."""
    for attempt in range(1, DOWNLOAD_ATTEMPTS):
        try:
            return action()
        except BuildError as error:
            say(f"attempt {attempt} failed, again in {2**attempt} s: {str(error)[-300:]}")
            time.sleep(2**attempt)
    return action()


def say(text: str) -> None:
    """Tell a person what is going on."""
    sys.stderr.write(f"{text}\n")
