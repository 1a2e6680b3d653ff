"""The healthcheck's script, run by a real shell with programs that only note their calls."""

import subprocess
from pathlib import Path

import pytest

from trainer_bridge.sources.harbor.schema import Healthcheck
from trainer_bridge.sources.harbor.scripts import longest_wait_seconds, wait_until_healthy

CLOCK = """#!/bin/sh
cat {folder}/now
"""
SLEEP = """#!/bin/sh
echo "sleep $1" >> {folder}/calls
echo $(($(cat {folder}/now) + $1)) > {folder}/now
"""
TIMEOUT = """#!/bin/sh
echo "timeout $*" >> {folder}/calls
shift 3
exec "$@"
"""
BASH = """#!/bin/sh
exec /bin/sh "$@"
"""


def run(folder: Path, check: Healthcheck) -> tuple[int, list[str]]:
    """Exit code and calls; each second passes by a sleep."""
    programs = folder / "bin"
    programs.mkdir()
    (folder / "now").write_text("1000\n")
    for name, text in {"date": CLOCK, "sleep": SLEEP, "timeout": TIMEOUT, "bash": BASH}.items():
        (programs / name).write_text(text.format(folder=folder))
        (programs / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", f"set -e\n{wait_until_healthy(check)}"],
        env={"PATH": f"{programs}:/usr/bin:/bin"},
        cwd=folder,
        check=False,
    )
    calls = folder / "calls"
    return done.returncode, calls.read_text().splitlines() if calls.exists() else []


def healthy_at(try_number: int) -> str:
    """A command that succeeds at that try."""
    return f"echo x >> tries; test $(wc -l < tries) -ge {try_number}"


def test_healthy_at_once(tmp_path: Path) -> None:
    check = Healthcheck(command="test 'it''s' = its", timeout_sec=7.9)
    code, calls = run(tmp_path, check)
    assert code == 0
    assert calls == [f"timeout -s KILL 7 bash -c {check.command}"]


def test_failures_in_the_start_period_do_not_count(tmp_path: Path) -> None:
    check = Healthcheck(
        command=healthy_at(6),
        start_period_sec=6,
        start_interval_sec=2,
        interval_sec=5,
        retries=3,
        timeout_sec=0,
    )
    code, calls = run(tmp_path, check)
    assert code == 0
    assert calls == ["sleep 2"] * 3 + ["sleep 5"] * 2


@pytest.mark.parametrize(("retries", "tries"), [(3, 3), (1, 1), (0, 1)])
def test_too_many_failures(tmp_path: Path, retries: int, tries: int) -> None:
    check = Healthcheck(command=healthy_at(99), retries=retries, interval_sec=1, timeout_sec=0)
    code, calls = run(tmp_path, check)
    assert code == 1
    assert calls == ["sleep 1"] * (tries - 1)
    assert len((tmp_path / "tries").read_text().splitlines()) == tries


def test_the_time_it_can_take() -> None:
    check = Healthcheck(
        command="x", start_period_sec=10, start_interval_sec=2, interval_sec=5, timeout_sec=30
    )
    assert longest_wait_seconds(check) == 10 + 30 + 2 + 3 * (30 + 5) + 1
    assert longest_wait_seconds(Healthcheck(command="x", timeout_sec=0.9)) is None
