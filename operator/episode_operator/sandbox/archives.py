"""Files out of one container, and into another, as gzipped tars. No tool of the image is used."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from types import TracebackType
from typing import Any, Self

from . import errors
from .requester import Requester
from .results import Packed, Unpacked
from .uploads import abort, upload

UNPACK_LIMIT_BYTES = 8 << 30
UNPACK_LIMIT_ENTRIES = 1_000_000


class Packing(AsyncIterator[bytes]):
    """An archive on its way out: enter it, iterate over its bytes, then ask what it has become.

    It is made in the container while it is read, and needs little memory there. Nothing is read
    before the first bytes are asked for.
    """

    def __init__(self, requester: Requester, paths: Sequence[str], *, limit_bytes: int) -> None:
        self._requester = requester
        self._name = requester.new_id()
        self._parameters = {"paths": list(paths), "limitBytes": limit_bytes}
        self._digest = hashlib.sha256()
        self._offset = 0
        self._opened = False
        self._packed: Packed | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._opened:
            self._requester.release("closePack", {"pack": self._name})

    async def __anext__(self) -> bytes:
        """The next bytes, at most 256 KiB.

        Raises:
            FileChanged: a file changed while it was read, so the archive ends nowhere.
            PackNotFound: it was not read for ten minutes.
            InvalidRequest: too many archives are open in this container (4).
        """
        if self._packed is not None:
            raise StopAsyncIteration
        if not self._opened:
            self._opened = True
            await self._requester.request("openPack", self._parameters | {"pack": self._name})
        position = {"pack": self._name, "offsetBytes": self._offset}
        answer = await self._requester.request("readPack", position, recorded=False)
        self._offset += len(answer.payload)
        self._digest.update(answer.payload)
        if "packed" in answer.result:
            self._end(Packed.parse(answer.result["packed"]))
        return answer.payload

    def _end(self, packed: Packed) -> None:
        if (packed.size_bytes, packed.sha256) != (self._offset, self._digest.hexdigest()):
            raise errors.RunnerFault(
                f"{self._offset} bytes of an archive came, which are not the {packed.size_bytes} "
                "that were packed",
                pod_uid=self._requester.pod_uid,
            )
        self._packed = packed

    @property
    def packed(self) -> Packed:
        """What the archive has become. Only after its last bytes."""
        if self._packed is None:
            raise RuntimeError("the archive has not been read to its end")
        return self._packed


class Archives:
    """Files out of the container and into it, many at a time."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester

    def pack(self, paths: Sequence[str], *, limit_bytes: int) -> Packing:
        """A gzipped tar of files and folders, sorted by name, named without the leading slash.

        It has regular files (hard links as files of their own), directories, and symbolic links
        as links; pipes, sockets and devices are left out. Modes, times and numeric owners are
        kept. The same files give the same bytes.

            async with session.pack(["/workspace"], limit_bytes=1 << 20) as packing:
                async for data in packing:
                    ...
            print(packing.packed.missing)

        Args:
            paths: at most 1,024; they start at the container's working directory if they are
                relative. No link is followed on the way to them.
            limit_bytes: of content, before compression. A path whose files would pass it is
                missing as a whole.
        """
        return Packing(self._requester, paths, limit_bytes=limit_bytes)

    async def pack_bytes(self, paths: Sequence[str], *, limit_bytes: int) -> tuple[bytes, Packed]:
        """As `pack`, all at once, so `limit_bytes` of content must fit into memory.

        Raises:
            FileChanged, PackNotFound, InvalidRequest: see Packing.
        """
        async with self.pack(paths, limit_bytes=limit_bytes) as packing:
            data = b"".join([piece async for piece in packing])
            return data, packing.packed

    async def unpack(
        self,
        folder: str,
        data: bytes | AsyncIterable[bytes],
        *,
        owner: str | None = None,
        replace: Sequence[str] = (),
        limit_bytes: int = UNPACK_LIMIT_BYTES,
        limit_entries: int = UNPACK_LIMIT_ENTRIES,
        request_id: str | None = None,
    ) -> Unpacked:
        """Unpacks a gzipped tar under a folder, in place of what is there, and follows no link.

        It is on the pod's disk as a whole and checked before anything is unpacked. What was
        unpacked before an error stays. Directories of another user's, and what is the same
        already, stay as they are where the runner may not change them.

        Args:
            folder: made when it is missing. Its own mode and owner are not changed.
            owner: user or user:group of all of it; else the owners in the archive if the runner
                is root, else the runner's own.
            replace: paths that are removed first, as a whole.
            limit_bytes: of content, after decompression.
            request_id: with the id of an earlier call the data is not sent, not even read: the
                recorded result of that call is the answer.

        Raises:
            InvalidArchive: it is none, or leads out of the folder by its names or by links, its
                own or such as are there.
            ArchiveTooLarge: it passes a limit.
            FileIsLink: a link is on the way to the folder.
            FilePermissionDenied, NoSpace, FileError, UploadFailed
        """
        name = request_id or self._requester.new_id()
        parameters = {
            "upload": name,
            "path": folder,
            "replace": list(replace),
            "limitBytes": limit_bytes,
            "limitEntries": limit_entries,
        }
        if owner is not None:
            parameters["owner"] = owner
        if isinstance(data, bytes):
            # A part of what the request id stands for.
            parameters["sha256"] = hashlib.sha256(data).hexdigest()
        if request_id is None or not await self._knows(request_id):
            await self._send(name, folder, data)
        answer = await self._requester.request("unpack", parameters, request_id=request_id)
        return Unpacked(Packed.parse(answer.result), answer.result["entries"])

    async def _knows(self, request_id: str) -> bool:
        answer = await self._requester.request("requests", {}, recorded=False)
        return any(kept["id"] == request_id for kept in answer.result)

    async def _send(self, name: str, folder: str, data: bytes | AsyncIterable[bytes]) -> None:
        sha256 = await upload(self._requester, "openArchive", {"path": folder}, data, name=name)
        seal: dict[str, Any] = {"upload": name, "sha256": sha256}
        if isinstance(data, Packing):
            seal["missing"] = data.packed.missing
            seal["tooLarge"] = list(data.packed.too_large)
        try:
            await self._requester.request("sealUpload", seal, recorded=False)
        except errors.RequestError:
            await abort(self._requester, name)
            raise


async def carry(
    source: Archives,
    target: Archives,
    paths: Sequence[str],
    *,
    limit_bytes: int,
    request_id: str | None = None,
) -> Packed:
    """Makes paths in one container what they are in another, streaming.

    What was at the paths is removed, so what is missing in the source is missing afterwards.

    Args:
        paths: absolute.
        limit_bytes: of content, before compression.
        request_id: of the target's. With the id of an earlier call nothing is packed or sent
            again, and the outcome is the earlier one.

    Raises:
        FileChanged: a file of the source's changed while it was read.
        InvalidArchive: a link in the target is on the way.
        FilePermissionDenied, NoSpace, FileError: the target cannot hold it.
    """
    async with source.pack(paths, limit_bytes=limit_bytes) as packing:
        unpacked = await target.unpack(
            "/", packing, replace=paths, limit_bytes=limit_bytes, request_id=request_id
        )
    return unpacked.archive
