"""Errors of the sandbox. Each carries the pod's uid and a CamelCase reason, and says what to do."""

from __future__ import annotations

from typing import ClassVar

import orjson


class SandboxError(Exception):
    """Something about a pod or the session with its runner went wrong.

    Attributes:
        reason: a CamelCase word for conditions and events.
        message: what went wrong, without the pod.
        pod_uid: the uid of the pod, or "" where it is not known.
    """

    reason: ClassVar[str] = "SandboxError"

    def __init__(self, message: str, *, pod_uid: str = "") -> None:
        super().__init__(f"{message} (pod uid {pod_uid})" if pod_uid else message)
        self.message = message
        self.pod_uid = pod_uid


class SessionLost(SandboxError):
    """The runner could not be reached in time. Treat the pod as lost and retry on a fresh one."""

    reason = "SessionLost"


class SessionSuperseded(SandboxError):
    """Another client attached to this runner. That client drives the episode now: stop."""

    reason = "SessionSuperseded"


class SandboxReplaced(SandboxError):
    """Another runner answers: the container restarted, so its files and processes are gone.

    Never continue the episode there; retry on a fresh pod.
    """

    reason = "SandboxReplaced"


class SessionClosed(SandboxError):
    """The session was closed by this program. Open another one."""

    reason = "SessionClosed"


class ProtocolError(SandboxError):
    """The runner and this program do not understand each other. Use the images of one release."""

    reason = "ProtocolError"


class RequestError(SandboxError):
    """The runner refused or failed one request. The session goes on.

    Attributes:
        errno: the name of the system's error, for example "ENOENT", or "".
        path: the path concerned, or "".
    """

    reason = "RequestFailed"

    def __init__(self, message: str, *, pod_uid: str = "", errno: str = "", path: str = "") -> None:
        super().__init__(message, pod_uid=pod_uid)
        self.errno = errno
        self.path = path


class InvalidRequest(RequestError):
    """A parameter cannot be right. Correct the call."""

    reason = "InvalidRequest"


class RequestConflict(RequestError):
    """The request id was used before with other content. Use a new id; nothing has run."""

    reason = "RequestConflict"


class ResultStoreFull(RequestError):
    """Too many results wait in the runner. Nothing has run: forget some and ask again."""

    reason = "ResultStoreFull"


class JournalFull(RequestError):
    """The journal's bound is reached. End the episode here, with the turns it has."""

    reason = "JournalFull"


class JournalConflict(RequestError):
    """The entry exists with other content or leaves a gap. Read the journal, go on from its end."""

    reason = "JournalConflict"


class FileError(RequestError):
    """A file operation failed; `errno` and `path` say how and where."""

    reason = "FileError"


class FileNotFound(FileError):
    """There is no such file or directory."""

    reason = "FileNotFound"


class FilePermissionDenied(FileError):
    """The user may not do that. Act as another user or choose another path."""

    reason = "FilePermissionDenied"


class FileIsDirectory(FileError):
    """A file was expected and a directory is there."""

    reason = "FileIsDirectory"


class FileIsLink(FileError):
    """A symbolic link is on the path, and links were refused (or there are too many of them)."""

    reason = "FileIsLink"


class NoSpace(FileError):
    """The file system is full or its quota is reached. Free space in the sandbox."""

    reason = "NoSpace"


class FileChanged(FileError):
    """The file changed while it was read. Read it again."""

    reason = "FileChanged"


class PackNotFound(RequestError):
    """The runner has dropped the archive, which waited too long for its reader. Pack again."""

    reason = "PackNotFound"


class InvalidArchive(RequestError):
    """It is no gzipped tar, or it leads out of its folder. Use another one."""

    reason = "InvalidArchive"


class ArchiveTooLarge(RequestError):
    """What is in the archive passes the limits given. Use a smaller one, or raise the limits."""

    reason = "ArchiveTooLarge"


ArchiveErrors = (FileError, InvalidArchive, ArchiveTooLarge)
"""What unpacking an archive may end with that concerns the archive or the disk."""


class UploadFailed(RequestError):
    """What is on the pod's disk is not what was sent. Write the file again."""

    reason = "UploadFailed"


class CommandNotStarted(RequestError):
    """The program could not be executed: `errno` says why, `path` names it or its directory."""

    reason = "CommandNotStarted"


class ProcessNotFound(RequestError):
    """There is no background process of that name, or it has ended."""

    reason = "ProcessNotFound"


class ProcessConflict(RequestError):
    """A background process of that name exists or runs. Use another name, or kill and remove it."""

    reason = "ProcessConflict"


class ProcessLimit(RequestError):
    """Too many background processes are known. Remove ended ones."""

    reason = "ProcessLimit"


class ProcessInputFull(RequestError):
    """The background process does not read its stdin. Wait, or kill it."""

    reason = "ProcessInputFull"


class KillIncomplete(RequestError):
    """Some processes could not be killed. Do not verify in this pod."""

    reason = "KillIncomplete"


class RunnerFault(RequestError):
    """The runner itself failed. Report it, with the message."""

    reason = "RunnerFault"


_BY_REASON: dict[str, type[RequestError]] = {
    "ArchiveTooLarge": ArchiveTooLarge,
    "CommandNotStarted": CommandNotStarted,
    "FileChanged": FileChanged,
    "FileError": FileError,
    "InvalidArchive": InvalidArchive,
    "InvalidRequest": InvalidRequest,
    "JournalConflict": JournalConflict,
    "JournalFull": JournalFull,
    "KillIncomplete": KillIncomplete,
    "PackNotFound": PackNotFound,
    "ProcessConflict": ProcessConflict,
    "ProcessInputFull": ProcessInputFull,
    "ProcessLimit": ProcessLimit,
    "ProcessNotFound": ProcessNotFound,
    "RequestConflict": RequestConflict,
    "ResultStoreFull": ResultStoreFull,
    "RunnerFault": RunnerFault,
    "UploadNotFound": UploadFailed,
    "UploadCheckFailure": UploadFailed,
}

_BY_ERRNO: dict[str, type[FileError]] = {
    "ENOENT": FileNotFound,
    "EACCES": FilePermissionDenied,
    "EPERM": FilePermissionDenied,
    "EROFS": FilePermissionDenied,
    "EISDIR": FileIsDirectory,
    "ELOOP": FileIsLink,
    "ENOSPC": NoSpace,
    "EDQUOT": NoSpace,
}


def from_runner(answer: bytes, *, pod_uid: str) -> RequestError:
    """The typed error for the `error` object (JSON) in a runner's answer."""
    fields = orjson.loads(answer)
    reason, errno, path = (str(fields.get(key, "")) for key in ("reason", "errno", "path"))
    kind = _BY_REASON.get(reason, RequestError)
    if kind is FileError:
        kind = _BY_ERRNO.get(errno, FileError)
    message = str(fields.get("message", "")) or reason
    if path:
        message = f"{path}: {message}"
    return kind(message, pod_uid=pod_uid, errno=errno, path=path)
