"""The lock files in requirements/, and which of their packages an image has."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from packaging.requirements import Requirement

from images._contexts import ABI
from images.release.errors import ReleaseError

MACHINES = ("x86_64", "aarch64")

_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VIA = re.compile(r"#\s+(?:via\s+)?(\S.*)")


@dataclass(frozen=True)
class Pin:
    """A package of a lock: the SHA-256 of each file that may be installed, and who asks for it."""

    requirement: Requirement
    sha256: tuple[str, ...]
    via: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its normalised name."""
        return self.requirement.name

    @property
    def version(self) -> str:
        """The one version that is locked."""
        (specifier,) = self.requirement.specifier
        return specifier.version

    def taken(self, machine: str) -> bool:
        """Whether the Python of an image installs it."""
        marker = self.requirement.marker
        return marker is None or marker.evaluate(_environment(machine))


def read(lock: str) -> list[Pin]:
    """The packages of a lock in its order.

    Raises:
        ReleaseError: a package has no single version, or no hash.
    """
    pins = []
    for requirement, lines in _entries(lock.splitlines()):
        sha256 = tuple(found for line in lines for found in _HASH.findall(line))
        via = tuple(match[1] for line in lines if (match := _VIA.fullmatch(line.strip())))
        specifiers = [specifier.operator for specifier in requirement.specifier]
        if not sha256 or specifiers != ["=="]:
            raise ReleaseError(f"{requirement} is not locked with a version and hashes")
        pins.append(Pin(requirement, sha256, tuple(name for name in via if name != "via")))
    return pins


def in_image(pins: Iterable[Pin]) -> list[Pin]:
    """Those that an image installs: Linux with the images' Python.

    Raises:
        ReleaseError: images of two machines have different packages.
    """
    every = list(pins)
    first, *others = ([pin for pin in every if pin.taken(machine)] for machine in MACHINES)
    if any(other != first for other in others):
        raise ReleaseError(f"the lock differs between {' and '.join(MACHINES)}")
    return first


def _entries(lines: Iterable[str]) -> Iterator[tuple[Requirement, list[str]]]:
    """Each requirement with the lines that belong to it."""
    requirement: Requirement | None = None
    rest: list[str] = []
    for line in lines:
        if line[:1] not in ("", " ", "#"):
            if requirement is not None:
                yield requirement, rest
            requirement, rest = Requirement(line.removesuffix("\\").strip()), []
        else:
            rest.append(line)
    if requirement is not None:
        yield requirement, rest


def _environment(machine: str) -> dict[str, str]:
    version = ".".join(map(str, ABI))
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{version}.0",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{version}.0",
        "python_version": version,
        "sys_platform": "linux",
    }
