"""The files of a release: wheel, source, chart and checksums."""

import hashlib
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from images.release.errors import ReleaseError
from images.release.versions import CHART, IMAGE_VALUES
from tests.testbed import gobuild
from tests.testbed.shell import run

SUMS = "SHA256SUMS"
_PINNED = re.compile(r"\S+@sha256:[0-9a-f]{64}")


def python(root: Path, output: Path) -> None:
    """Build the wheel and the source distribution."""
    run([sys.executable, "-m", "hatchling", "build", "-d", str(output)], cwd=root)


def chart(
    root: Path, output: Path, references: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Package the chart; with `references` its images are those, else the local names it has.

    Args:
        references: from image to `REPOSITORY@sha256:DIGEST`, as images/build/images.json has it.

    Raises:
        ReleaseError: a reference is missing, or names no digest.
    """
    helm = str(gobuild.ensure(gobuild.HELM, say) / "helm")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / CHART.name
        shutil.copytree(root / CHART, copy)
        values = copy / "values.yaml"
        if references:
            values.write_text(with_images(values.read_text(), references))
        run([helm, "package", str(copy), "--destination", str(output)])


def with_images(values: str, references: Mapping[str, str]) -> str:
    """The text of the chart's values with other images; its comments stay."""
    for image, (_, key) in IMAGE_VALUES.items():
        reference = references.get(image, "")
        if not _PINNED.fullmatch(reference):
            raise ReleaseError(f"the image {image} needs a reference with its digest: {reference}")
        local = rf"^(  {key}: )episode-{image}:\S+$"
        values, count = re.subn(local, rf"\g<1>{reference}", values, flags=re.MULTILINE)
        if count != 1:
            raise ReleaseError(f"values.yaml names the image episode-{image} {count} times")
    return values


def checksums(output: Path) -> Path:
    """Write what `sha256sum --check` reads, of all files of the release."""
    files = sorted(file for file in output.rglob("*") if file.is_file())
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(output)}\n"
        for file in files
    ]
    (output / SUMS).write_text("".join(lines))
    return output / SUMS
