"""Daemons without pid files: a process is ours if its environment says so.

Every daemon is started with `MARK` (the state folder, so that two users' testbeds never meet)
and `PART` (its name and a hash of its command and configuration). What `/proc` shows is the
only record, so a crash, a reboot or a reused pid cannot leave a false one.
"""

import errno
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.testbed.paths import CGROUP, LOGS, STATE

MARK = "EPISODE_TESTBED"
PART = "EPISODE_TESTBED_PART"
CGROUP_MOUNTS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Daemon:
    """A program that runs for as long as the testbed: a change of `files` restarts it."""

    name: str
    argv: tuple[str, ...]
    files: tuple[Path, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        """The file that takes its standard output and error."""
        return LOGS / f"{self.name}.log"

    def fingerprint(self) -> str:
        """Equal for the same command, environment and content of the configuration files."""
        digest = hashlib.sha256(repr((self.argv, sorted(self.environment.items()))).encode())
        for file in self.files:
            digest.update(file.read_bytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Running:
    """A live process of the testbed, as `/proc` shows it."""

    pid: int
    part: str
    fingerprint: str
    program: str
    started_ticks: int


def all_running() -> list[Running]:
    """Every live process that carries our mark, helpers such as containerd's shims included."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (process := _inspect(int(entry.name))) is not None:
            found.append(process)
    return sorted(found, key=lambda process: process.started_ticks)


def find(daemon: Daemon) -> Running | None:
    """The daemon's main process, if it lives."""
    return find_part(daemon.name, Path(daemon.argv[0]).name)


def find_part(name: str, program: str) -> Running | None:
    """The oldest process of a part that runs this program, so no helper that it started."""
    for process in all_running():
        if process.part == name and process.program == program:
            return process
    return None


def start(daemon: Daemon) -> subprocess.Popen[bytes]:
    """Start in a session of its own; the log of the run before is kept as `.log.1`."""
    LOGS.mkdir(parents=True, exist_ok=True)
    if daemon.log.exists():
        daemon.log.replace(daemon.log.with_suffix(".log.1"))
    mark = {MARK: str(STATE), PART: f"{daemon.name}:{daemon.fingerprint()}"}
    with daemon.log.open("wb") as log:
        return subprocess.Popen(
            daemon.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=STATE,
            env={**os.environ, **daemon.environment, **mark},
            start_new_session=True,
        )


def stop(processes: Iterable[Running], *, grace_seconds: float = 10.0) -> None:
    """Ask to end, wait, then kill; a process that is already gone is no error."""
    waiting = list(processes)
    for process in waiting:
        _signal(process, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while waiting and time.monotonic() < deadline:
        time.sleep(0.05)
        waiting = [process for process in waiting if _inspect(process.pid) == process]
    for process in waiting:
        _signal(process, signal.SIGKILL)


def container_pids() -> list[int]:
    """Processes in the control groups of the testbed's pods: those that containers run."""
    pids: set[int] = set()
    for file in CGROUP_MOUNTS.glob(f"**/{CGROUP}/**/cgroup.procs"):
        try:
            pids.update(int(line) for line in file.read_text().split())
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):  # the group has just ended
                raise
    return sorted(pids)


def kill_containers() -> None:
    """Kill whatever runs in the testbed's control groups."""
    for pid in container_pids():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _signal(process: Running, number: signal.Signals) -> None:
    if _inspect(process.pid) != process:
        return
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return


def _inspect(pid: int) -> Running | None:
    """Read one process; None if it is gone, a zombie, unreadable or not ours."""
    folder = Path("/proc") / str(pid)
    try:
        environment = dict(
            line.split("=", 1) for line in _strings(folder / "environ") if "=" in line
        )
        if environment.get(MARK) != str(STATE):
            return None
        argv = _strings(folder / "cmdline")
        ticks = int((folder / "stat").read_text().rpartition(")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    part, _, fingerprint = environment.get(PART, "").partition(":")
    return Running(pid, part, fingerprint, Path(argv[0]).name if argv else "", ticks)


def _strings(file: Path) -> list[str]:
    return [text.decode(errors="replace") for text in file.read_bytes().split(b"\0") if text]
