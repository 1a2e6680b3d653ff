"""Folders as archives: gzipped tars, the same bytes each time, in pieces that fit ConfigMaps."""

import base64
import gzip
import hashlib
import io
import stat
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from episode_operator.api.base import Archive
from trainer_bridge.sources.errors import UnusableError

PART_BYTES = 512 * 1024
LIMIT_BYTES = 32 * 1024 * 1024

_IGNORE_FILE = ".harborignore"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file (content), a link (its target) or a folder (neither), with its permission bits."""

    mode: int
    content: bytes | None = None
    link: str | None = None


Tree = Mapping[str, Entry]
"""Entries by their path, relative and with slashes."""


@dataclass(frozen=True, slots=True)
class ConfigMapPart:
    """One piece of an archive."""

    name: str
    data: bytes

    def to_api(self, namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """Its ConfigMap, immutable, without an owner."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name, "namespace": namespace, "labels": dict(labels)},
            "immutable": True,
            "binaryData": {"part": base64.b64encode(self.data).decode()},
        }


class Packer:
    """Packs trees, and gathers the pieces. A tree that was packed before adds no pieces."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._parts: dict[str, ConfigMapPart] = {}

    @property
    def parts(self) -> tuple[ConfigMapPart, ...]:
        """All pieces so far."""
        return tuple(self._parts.values())

    def add(self, tree: Tree, *, path: str) -> Archive:
        """The tree as an archive for the folder `path` of the sandbox.

        Raises:
            UnusableError: it is too large.
        """
        data = pack(tree)
        if len(data) > LIMIT_BYTES:
            raise UnusableError(
                f"the files for {path} are {len(data) >> 20} MiB when packed, of at most "
                f"{LIMIT_BYTES >> 20}; put them into the image"
            )
        digest = hashlib.sha256(data).hexdigest()
        pieces = [data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES)]
        names = [f"{self._prefix}-{digest[:12]}-{index}" for index in range(len(pieces))]
        for name, piece in zip(names, pieces, strict=True):
            self._parts[name] = ConfigMapPart(name, piece)
        return Archive(path=path, sha256=digest, parts=names)


def pack(tree: Tree) -> bytes:
    """A gzipped tar of the tree: sorted, owned by root, without times."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, entry in sorted(tree.items()):
            info = tarfile.TarInfo(path)
            info.mode = entry.mode
            if entry.link is not None:
                info.type, info.linkname = tarfile.SYMTYPE, entry.link
            elif entry.content is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(entry.content)
            tar.addfile(info, io.BytesIO(entry.content or b""))
    return gzip.compress(buffer.getvalue(), mtime=0)


def read_tree(folder: Path, *, within: Path) -> dict[str, Entry]:
    """All entries of a folder; links stay links, and lead nowhere out of the folder `within`.

    Raises:
        UnusableError: a link leads outside, or an entry is neither file, folder nor link.
        OSError: something cannot be read.
    """
    within = within.resolve()
    if not folder.resolve().is_relative_to(within):
        raise UnusableError(f"{folder.name} is a link that leads out of the task's folder")
    return dict(_entries(folder, "", within))


def _entries(folder: Path, prefix: str, within: Path) -> Iterator[tuple[str, Entry]]:
    for path in sorted(folder.iterdir()):
        name = f"{prefix}{path.name}"
        if path.name == _IGNORE_FILE:
            raise UnusableError(f"{name} is not supported; remove it and what it names")
        mode = path.lstat().st_mode
        bits = stat.S_IMODE(mode) & 0o777
        if stat.S_ISLNK(mode):
            yield name, Entry(0o777, link=_checked_link(path, name, within))
        elif stat.S_ISDIR(mode):
            yield name, Entry(bits)
            yield from _entries(path, f"{name}/", within)
        elif stat.S_ISREG(mode):
            yield name, Entry(bits, path.read_bytes())
        else:
            raise UnusableError(f"{name} is neither a file nor a folder nor a link")


def _checked_link(path: Path, name: str, within: Path) -> str:
    target = path.readlink().as_posix()
    try:
        inside = path.resolve().is_relative_to(within)
    except (OSError, RuntimeError) as error:  # a loop of links is one or the other by version
        raise UnusableError(f"{name} is a link that leads nowhere: {error}") from error
    if PurePosixPath(target).is_absolute() or not inside:
        raise UnusableError(f"{name} is a link to {target}, out of the task's folder")
    return target
