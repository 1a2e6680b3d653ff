"""What the runner answers, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from . import errors


@dataclass(frozen=True, slots=True)
class Output:
    """What a command wrote to one stream: its beginning and its end, byte-exact.

    Attributes:
        head: the first kept bytes; all of the output where nothing was omitted and it is short.
        tail: the kept bytes that follow, after the omitted ones.
        omitted_bytes: exact number of bytes dropped between head and tail.
    """

    head: bytes = b""
    tail: bytes = b""
    omitted_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """Everything that the command wrote, in bytes."""
        return len(self.head) + len(self.tail) + self.omitted_bytes

    @property
    def data(self) -> bytes:
        """The kept bytes. They are the whole output where `omitted_bytes` is 0."""
        return self.head + self.tail

    def text(self, *, omitted: str = "\n[... {bytes} bytes omitted ...]\n") -> str:
        """The kept bytes as UTF-8, invalid ones replaced; no character is cut at the gap."""
        if not self.omitted_bytes:
            return self.data.decode(errors="replace")
        head, tail = _whole_characters(self.head, self.tail)
        gap = self.total_bytes - len(head) - len(tail)
        marker = omitted.replace("{bytes}", str(gap))
        return head.decode(errors="replace") + marker + tail.decode(errors="replace")


def _whole_characters(head: bytes, tail: bytes) -> tuple[bytes, bytes]:
    for back in range(1, min(4, len(head)) + 1):
        byte = head[-back]
        if byte & 0xC0 != 0x80:  # not a continuation, so a character begins here
            length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            if length > back:
                head = head[:-back]
            break
    start = 0
    while start < min(3, len(tail)) and tail[start] & 0xC0 == 0x80:
        start += 1
    return head, tail[start:]


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended.

    Attributes:
        exit_code: 128 + signal where a signal ended it, as shells say it.
        signal: the number of the signal that ended it, or None.
        timed_out: its time was over, and it was killed with its whole session.
        oom_killed: the kernel killed a process of the container for memory, this command's or
            another, during the call or since the one before.
        stuck: it was killed, but the kernel had not let go of it ten seconds later.
        duration_seconds: wall time from start to end.
        cpu_seconds: user and system time of it and the children it waited for.
        max_memory_bytes: largest resident size of any of them.
        cwd: the shell's directory at its end, where shell state is carried, else "".
    """

    exit_code: int
    signal: int | None
    timed_out: bool
    oom_killed: bool
    stuck: bool
    duration_seconds: float
    cpu_seconds: float
    max_memory_bytes: int
    cwd: str
    stdout: Output
    stderr: Output

    @classmethod
    def parse(cls, fields: dict[str, Any], payload: bytes, *, pod_uid: str) -> ExecResult:
        """From the runner's answer.

        Raises:
            RunnerFault: the payload is longer or shorter than the answer says.
        """
        kept = fields["stdout"]["keptBytes"]
        whole = kept + fields["stderr"]["keptBytes"]
        if len(payload) != whole:
            raise errors.RunnerFault(
                f"{len(payload)} bytes of a command's output came, which are not the {whole} that "
                "were kept",
                pod_uid=pod_uid,
            )
        return cls(
            exit_code=fields["exitCode"],
            signal=fields.get("signal"),
            timed_out=fields.get("timedOut", False),
            oom_killed=fields.get("oomKilled", False),
            stuck=fields.get("stuck", False),
            duration_seconds=fields["durationSeconds"],
            cpu_seconds=fields["cpuSeconds"],
            max_memory_bytes=fields["maxMemoryBytes"],
            cwd=fields.get("cwd", ""),
            stdout=_output(fields["stdout"], payload[:kept]),
            stderr=_output(fields["stderr"], payload[kept:]),
        )


def _output(fields: dict[str, Any], data: bytes) -> Output:
    head = fields["headBytes"]
    return Output(data[:head], data[head:], fields["omittedBytes"])


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """A background process.

    Attributes:
        process: the name it was started under.
        exit_code: None while it runs.
        output_bytes: all that it has written so far.
    """

    process: str
    pid: int
    running: bool
    exit_code: int | None
    signal: int | None
    duration_seconds: float
    output_bytes: int
    oom_killed: bool
    command: str

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> ProcessStatus:
        """From the runner's answer."""
        running = fields["running"]
        return cls(
            process=fields["process"],
            pid=fields["pid"],
            running=running,
            exit_code=None if running else fields["exitCode"],
            signal=fields.get("signal"),
            duration_seconds=fields["durationSeconds"],
            output_bytes=fields["outputBytes"],
            oom_killed=fields.get("oomKilled", False),
            command=fields["command"],
        )


@dataclass(frozen=True, slots=True)
class ProcessOutput:
    """New output of a background process, stdout and stderr in the order they were written.

    Attributes:
        data: the bytes from the cursor on.
        next_cursor: where the next poll goes on.
        dropped_bytes: bytes after the cursor that were dropped before anyone asked for them.
    """

    status: ProcessStatus
    data: bytes
    next_cursor: int
    dropped_bytes: int


class FileType(StrEnum):
    """What a path names."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    PIPE = "pipe"
    SOCKET = "socket"
    DEVICE = "device"


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What the file system says of a file.

    Attributes:
        mode: permission bits, for example 0o644.
        modified_seconds: seconds since 1970.
        link_target: where a symbolic link points, else "".
    """

    type: FileType
    size_bytes: int
    mode: int
    uid: int
    gid: int
    modified_seconds: float
    link_target: str = ""

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> FileInfo:
        """From the runner's answer."""
        return cls(
            type=FileType(fields["type"]),
            size_bytes=fields["sizeBytes"],
            mode=fields["mode"],
            uid=fields["uid"],
            gid=fields["gid"],
            modified_seconds=fields["modifiedUnixNano"] / 1e9,
            link_target=fields.get("linkTarget", ""),
        )


@dataclass(frozen=True, slots=True)
class FileContent:
    """Bytes of a file and what the file was when they were read.

    Attributes:
        end: the file ends with these bytes.
    """

    data: bytes
    info: FileInfo
    end: bool


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One name in a directory; bytes that are not UTF-8 are surrogate escapes."""

    name: str
    info: FileInfo


@dataclass(frozen=True, slots=True)
class DirectoryListing:
    """Entries by name. `omitted_entries` counts those over the limit."""

    entries: tuple[DirectoryEntry, ...]
    omitted_entries: int


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What is in a file now, as read back from the pod's disk before it took its place.

    Attributes:
        atomic: False where the path is a mount point and was rewritten in place.
    """

    size_bytes: int
    sha256: str
    atomic: bool


@dataclass(frozen=True, slots=True)
class Packed:
    """A gzipped tar of paths of a container.

    Attributes:
        size_bytes: of the archive.
        sha256: of the archive, hex.
        missing: for each asked path that is not in it, or not all of it, why.
        too_large: what of `missing` would have passed a limit, of bytes, entries or depth.
    """

    size_bytes: int
    sha256: str
    missing: dict[str, str]
    too_large: dict[str, str]

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Packed:
        """From the runner's answer."""
        missing = fields["missing"] or {}
        too_large = {path: missing[path] for path in fields["tooLarge"] or ()}
        return cls(fields["sizeBytes"], fields["sha256"], missing, too_large)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An archive that was unpacked, and how many entries it had."""

    archive: Packed
    entries: int


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """The container as the image and the pod define it.

    Attributes:
        env: the environment of PID 1, so the image's with the pod's additions.
        working_dir: where commands run unless told otherwise.
        uid: whose rights the runner has; 0 may act for other users.
    """

    env: dict[str, str]
    working_dir: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class KeptRequest:
    """A request that the runner remembers."""

    request_id: str
    done: bool
    size_bytes: int
