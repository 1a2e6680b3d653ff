"""Files in the pod, without a shell."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from . import errors
from .requester import Answer, Requester
from .results import (
    DirectoryEntry,
    DirectoryListing,
    FileContent,
    FileInfo,
    WrittenFile,
)
from .uploads import CHUNK_BYTES, abort, upload

_CHUNKS_IN_FLIGHT = 4


class Files:
    """File operations. Paths are absolute, or start at `cwd`, else at the working directory.

    `user` acts with that user's rights (the runner must be root), else with the runner's.
    `refuse_links` fails with FileIsLink where any part of the path is a symbolic link.
    """

    def __init__(self, requester: Requester) -> None:
        self._requester = requester

    async def stat(
        self,
        path: str,
        *,
        of_link: bool = False,
        cwd: str | None = None,
        user: str | None = None,
        refuse_links: bool = False,
    ) -> FileInfo:
        """What is at a path; with `of_link` a symbolic link itself.

        Raises:
            FileNotFound, FileError
        """
        parameters = _target(path, cwd, user, refuse_links) | {"ofLink": of_link}
        answer = await self._requester.request("stat", parameters, recorded=False)
        return FileInfo.parse(answer.result)

    async def read_file(
        self,
        path: str,
        *,
        offset_bytes: int = 0,
        limit_bytes: int | None = None,
        cwd: str | None = None,
        user: str | None = None,
        refuse_links: bool = False,
    ) -> FileContent:
        """A range of a regular file, or all of it.

        Raises:
            FileNotFound, FileIsDirectory, FilePermissionDenied, FileError
            FileChanged: it changed between two chunks.
        """
        target = _target(path, cwd, user, refuse_links)
        wanted = CHUNK_BYTES if limit_bytes is None else min(limit_bytes, CHUNK_BYTES)
        first = await self._read_chunk(target, offset_bytes, wanted)
        chunks = [first.payload]
        got, last = len(first.payload), first
        identity, size = first.result["identity"], first.result["sizeBytes"]
        rest = size - offset_bytes if limit_bytes is None else limit_bytes
        # Files of the kernel have size 0 and more content than that: read on while there is some.
        while not last.result["end"] and (limit_bytes is None or got < limit_bytes):
            ends = max(rest, got + 1)
            offsets = range(got, ends, CHUNK_BYTES)[:_CHUNKS_IN_FLIGHT]
            most = ends if limit_bytes is not None else offsets[-1] + CHUNK_BYTES
            for answer in await asyncio.gather(
                *(
                    self._read_chunk(target, offset_bytes + o, min(CHUNK_BYTES, most - o))
                    for o in offsets
                )
            ):
                if answer.result["identity"] != identity:
                    raise errors.FileChanged(
                        f"{path} changed while it was read; read it again",
                        pod_uid=self._requester.pod_uid,
                        path=path,
                    )
                chunks.append(answer.payload)
                got += len(answer.payload)
                last = answer
                if answer.result["end"]:
                    break
        return FileContent(b"".join(chunks), FileInfo.parse(last.result), last.result["end"])

    async def _read_chunk(self, target: dict[str, Any], offset: int, length: int) -> Answer:
        parameters = target | {"offsetBytes": offset, "lengthBytes": length}
        return await self._requester.request("readFile", parameters, recorded=False)

    async def write_file(
        self,
        path: str,
        data: bytes,
        *,
        mode: int | None = None,
        owner: str | None = None,
        parents: bool = False,
        cwd: str | None = None,
        user: str | None = None,
        refuse_links: bool = False,
        request_id: str | None = None,
    ) -> WrittenFile:
        """Replaces a file as a whole, after its SHA-256 was checked on the pod's disk.

        Args:
            mode: else that of the file replaced, else 0o644.
            owner: user or user:group; else that of the file replaced, else `user`.
            parents: make missing directories.
            refuse_links: also replaces a symbolic link at the path's end instead of following it.

        Raises:
            FileNotFound, FileIsDirectory, FilePermissionDenied, NoSpace, FileError, UploadFailed
        """
        parameters = _target(path, cwd, user, refuse_links)
        parameters["sha256"] = hashlib.sha256(data).hexdigest()
        parameters["parents"] = parents
        if mode is not None:
            parameters["mode"] = mode
        if owner is not None:
            parameters["owner"] = owner
        if len(data) <= CHUNK_BYTES:
            answer = await self._requester.request(
                "writeFile", parameters, data, request_id=request_id
            )
        else:
            answer = await self._upload(parameters, data, request_id)
        fields = answer.result
        return WrittenFile(fields["sizeBytes"], fields["sha256"], fields["atomic"])

    async def _upload(
        self, parameters: dict[str, Any], data: bytes, request_id: str | None
    ) -> Answer:
        # A caller's id names the upload too, so that a repeated call finds what it committed.
        name = request_id or self._requester.new_id()
        await upload(self._requester, "openUpload", parameters, data, name=name)
        commit = {"upload": name, "sha256": parameters["sha256"]}
        try:
            return await self._requester.request("commitUpload", commit, request_id=request_id)
        finally:
            if request_id is not None:
                # Where the answer was a recorded one, this call's own upload is still open.
                await abort(self._requester, name)

    async def list_directory(
        self,
        path: str,
        *,
        limit_entries: int = 10_000,
        cwd: str | None = None,
        user: str | None = None,
        refuse_links: bool = False,
    ) -> DirectoryListing:
        """The entries of a directory, by name; links are described, not followed.

        Raises:
            FileNotFound, FilePermissionDenied, FileError
        """
        parameters = _target(path, cwd, user, refuse_links) | {"limitEntries": limit_entries}
        answer = await self._requester.request("listDirectory", parameters, recorded=False)
        names = answer.payload.split(b"\x00")
        entries = (
            DirectoryEntry(name.decode(errors="surrogateescape"), FileInfo.parse(fields))
            for name, fields in zip(names, answer.result["entries"], strict=False)
        )
        return DirectoryListing(tuple(entries), answer.result["omittedEntries"])

    async def remove_path(
        self,
        path: str,
        *,
        recursive: bool = False,
        cwd: str | None = None,
        user: str | None = None,
        refuse_links: bool = False,
        request_id: str | None = None,
    ) -> bool:
        """Removes what is at a path, a link itself, with `recursive` a whole directory.

        Returns whether there was anything.

        Raises:
            FilePermissionDenied, FileError
        """
        parameters = _target(path, cwd, user, refuse_links) | {"recursive": recursive}
        answer = await self._requester.request("removeFile", parameters, request_id=request_id)
        return bool(answer.result["existed"])

    async def make_directory(
        self,
        path: str,
        *,
        mode: int = 0o755,
        owner: str | None = None,
        parents: bool = False,
        cwd: str | None = None,
        user: str | None = None,
        refuse_links: bool = False,
        request_id: str | None = None,
    ) -> None:
        """Makes a directory; one that exists stays as it is.

        Raises:
            FileNotFound, FilePermissionDenied, FileError
        """
        parameters = _target(path, cwd, user, refuse_links) | {"mode": mode, "parents": parents}
        if owner is not None:
            parameters["owner"] = owner
        await self._requester.request("makeDirectory", parameters, request_id=request_id)

    async def fresh_directory(
        self,
        path: str,
        *,
        mode: int = 0o755,
        owner: str | None = None,
        replace_parents: bool = False,
        request_id: str | None = None,
    ) -> None:
        """An empty directory, whatever was there before. Links are removed, never followed.

        Missing parents are made. A mount point is emptied.

        Args:
            replace_parents: parents that are links or files are replaced by directories; else
                they are FileIsLink or another FileError.

        Raises:
            FileIsLink, FilePermissionDenied, FileError
        """
        parameters = {
            "path": path,
            "mode": mode,
            "fresh": True,
            "replaceParents": replace_parents,
        }
        if owner is not None:
            parameters["owner"] = owner
        await self._requester.request("makeDirectory", parameters, request_id=request_id)


def _target(path: str, cwd: str | None, user: str | None, refuse_links: bool) -> dict[str, Any]:
    parameters: dict[str, Any] = {"path": path}
    if cwd is not None:
        parameters["cwd"] = cwd
    if user is not None:
        parameters["user"] = user
    if refuse_links:
        parameters["refuseLinks"] = True
    return parameters
