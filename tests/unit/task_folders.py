"""Small task folders for the tests of the sources."""

from collections.abc import Mapping
from pathlib import Path

IMAGE = "registry.test/task:1"
PASS = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"

MINIMAL = {
    "task.toml": f'version = "1.0"\n[environment]\ndocker_image = "{IMAGE}"\n',
    "instruction.md": "Write a word to out.txt.\n",
    "tests/test.sh": PASS,
    "solution/solve.sh": "#!/bin/sh\necho word > out.txt\n",
}
"""The least that a Harbor task has."""


def write(folder: Path, files: Mapping[str, str | bytes | None]) -> Path:
    """The folder with these files; None leaves one out."""
    for name, content in files.items():
        if content is None:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def harbor(
    folder: Path, toml: str = "", files: Mapping[str, str | bytes | None] | None = None
) -> Path:
    """A minimal Harbor task, with its task.toml replaced, and files added or left out."""
    own = {"task.toml": toml} if toml else {}
    return write(folder, {**MINIMAL, **own, **(files or {})})
