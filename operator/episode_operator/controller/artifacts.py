"""Keeps what an Episode asks to keep. It never changes how the Episode ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from episode_operator.controller.sessions import Sessions
from episode_operator.sandbox.errors import SandboxError

_LIMIT_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Artifacts:
    """A gzipped tar, None when nothing was there, and the paths not in it, with the reason."""

    archive: bytes | None = None
    missing: dict[str, str] = field(default_factory=dict)


async def gather(sessions: Sessions, paths: Sequence[str]) -> Artifacts:
    """The files and folders at the paths in the agent's container, as they are now.

    A sandbox that fails now costs the artifacts, never the verdict that is known already.
    """
    try:
        session = await sessions.agent()
        archive, packed = await session.pack_bytes(paths, limit_bytes=_LIMIT_BYTES)
    except SandboxError as error:
        return Artifacts(missing={path: str(error) for path in paths})
    nothing_there = set(packed.missing) == set(paths)
    return Artifacts(None if nothing_there else archive, packed.missing)
