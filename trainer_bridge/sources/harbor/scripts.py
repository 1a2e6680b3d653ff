"""Pieces of shell scripts for what Harbor does in the sandbox before the agent acts.

They are run with `set -e`, so a command that fails ends the script; `&&` would hide that.
"""

import shlex

from trainer_bridge.sources.errors import UnusableError
from trainer_bridge.sources.harbor.schema import Healthcheck
from trainer_bridge.sources.task import LONGEST_SECONDS


def into_workdir(folder: str) -> str:
    """Moves what is in the folder into the working directory, whose name only the image knows."""
    return f"cp -a {folder}/. .\nrm -rf {folder}\n"


def run_setup() -> str:
    """Runs the setup.sh in the working directory."""
    return 'bash "$PWD/setup.sh"\n'


def wait_until_healthy(check: Healthcheck) -> str:
    """Tries the command until it succeeds; fails after `retries` failures past the start period.

    Raises:
        UnusableError: a time is not a whole number of seconds, all that a shell can count.
    """
    start_period = _whole(check.start_period_sec)
    interval, start_interval = _whole(check.interval_sec), _whole(check.start_interval_sec)
    limit = _limit(check)
    limited = f"timeout -s KILL {limit} " if limit > 0 else ""
    return f"""\
started=$(date +%s) failed=0
while :; do
    early=$(($(date +%s) - started < {start_period}))
    if {limited}bash -c {shlex.quote(check.command)}; then break; fi
    if [ $early = 1 ]; then sleep {start_interval}; continue; fi
    failed=$((failed + 1))
    if [ $failed -ge {_retries(check)} ]; then echo "the healthcheck failed"; exit 1; fi
    sleep {interval}
done
"""


def longest_wait_seconds(check: Healthcheck) -> float | None:
    """The longest that `wait_until_healthy` can take; None if a try has no time limit."""
    limit = _limit(check)
    if limit <= 0:
        return None
    early = check.start_period_sec + limit + check.start_interval_sec
    return early + _retries(check) * (limit + check.interval_sec) + 1


def _limit(check: Healthcheck) -> int:
    """Time limit of one try: fractions are cut off, as in Harbor, and 0 is none."""
    if not 0 <= check.timeout_sec <= LONGEST_SECONDS:
        raise UnusableError(f"the healthcheck's timeout_sec is {check.timeout_sec:g}")
    return int(check.timeout_sec)


def _retries(check: Healthcheck) -> int:
    """Failures that end it; the first does where fewer are allowed."""
    if check.retries > LONGEST_SECONDS:
        raise UnusableError("the healthcheck has more retries than there is time for")
    return max(1, check.retries)


def _whole(seconds: float) -> int:
    if not 0 <= seconds <= LONGEST_SECONDS or seconds != int(seconds):
        raise UnusableError(f"the healthcheck's {seconds:g} s is not a whole number of seconds")
    return int(seconds)
