"""The Go modules of a program, from its go.mod and go.sum."""

import base64
import re
from dataclasses import dataclass

from images.release.errors import ReleaseError

_MODULE = re.compile(r"^module (\S+)$", re.MULTILINE)
_REQUIRED = re.compile(r"^(?:require |\t)([\w.~/-]+) (v\S+)(?: // indirect)?$", re.MULTILINE)
_SUM = re.compile(r"^(\S+) (v\S+) h1:(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Module:
    """A module; `sha256` is the hash of go.sum, over the names and hashes of its files."""

    path: str
    version: str
    sha256: str


def name(go_mod: str) -> str:
    """The path of the module itself."""
    match = _MODULE.search(go_mod)
    if match is None:
        raise ReleaseError("go.mod names no module")
    return match[1]


def required(go_mod: str, go_sum: str) -> list[Module]:
    """The modules that it is built from, besides the standard library.

    Raises:
        ReleaseError: go.sum has no hash for one of them.
    """
    sums = {(path, version): h1 for path, version, h1 in _SUM.findall(go_sum)}
    found = []
    for path, version in _REQUIRED.findall(go_mod):
        if (path, version) not in sums:
            raise ReleaseError(f"go.sum has no hash of {path} {version}")
        sha256 = base64.b64decode(sums[path, version]).hex()
        found.append(Module(path, version, sha256))
    return found
