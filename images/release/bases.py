"""The image that another is built upon, as its reference names it."""

import re
from dataclasses import dataclass
from pathlib import Path

from images.release.errors import ReleaseError

_REFERENCE = re.compile(
    r"(?P<repository>[^@\s]+?)(?::(?P<tag>[\w.-]+))?(?:@sha256:(?P<sha256>[0-9a-f]{64}))?"
)
_DEFAULT = re.compile(r"^ARG BASE=(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Base:
    """An image: its repository with the registry, its tag, its digest without `sha256:`."""

    repository: str
    tag: str | None
    sha256: str | None

    @property
    def name(self) -> str:
        """The repository's last part."""
        return self.repository.rpartition("/")[2]


def parse(reference: str) -> Base:
    """A base by `[REGISTRY/]NAME[:TAG][@sha256:DIGEST]`.

    Raises:
        ReleaseError: it is no reference of an image.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise ReleaseError(f"{reference} is no reference of an image")
    repository = match["repository"]
    if "/" not in repository:
        repository = f"docker.io/library/{repository}"
    return Base(repository, match["tag"], match["sha256"])


def default(containerfile: Path) -> Base | None:
    """The base that a Containerfile takes unless it is told another; None for `scratch`."""
    match = _DEFAULT.search(containerfile.read_text())
    return None if match is None else parse(match[1])
