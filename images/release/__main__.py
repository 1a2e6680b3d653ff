"""`python -m images.release build|sbom|notes`: what is published of a version; run it in the root.

What is made depends only on the repository, the base image that is named, and the version of Go.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from images._contexts import IMAGES, REPOSITORY
from images._shell import BuildError
from images._shell import run as run_program
from images.release import artifacts, bases, sbom, versions
from images.release.bases import Base
from images.release.errors import ReleaseError
from tests.testbed.console import step
from tests.testbed.errors import TestbedError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

DIST = REPOSITORY / "dist"
KIND = "python"

BaseOption = Annotated[
    str,
    typer.Option("--base", help="python=IMAGE, as for the images: what two of them build upon."),
]


@app.command("sbom")
def write_sboms(base: BaseOption = "") -> None:
    """Write dist/sbom/IMAGE.cdx.json for each image that is published."""
    for file in sbom.write(DIST / "sbom", _documents(_base(base))):
        typer.echo(file.relative_to(REPOSITORY))


@app.command()
def build(
    base: BaseOption = "",
    tag: Annotated[str, typer.Option(help="Git tag: be strict, this is published.")] = "",
    references: Annotated[
        Path | None, typer.Option(help="images.json: the images that the chart names.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder; what it has is deleted.")] = DIST,
) -> None:
    """Make all files of a release; nothing is made where versions do not agree."""
    versions.agreed(versions.stated(REPOSITORY))
    chosen = _base(base)
    if tag:
        versions.check_tag(tag, versions.changelog(REPOSITORY))
        if chosen is None or chosen.sha256 is None:
            raise ReleaseError("name the base by digest: --base python=NAME:TAG@sha256:DIGEST")
    images = {} if references is None else json.loads(references.read_text())
    shutil.rmtree(output, ignore_errors=True)
    sbom.write(output / "sbom", _documents(chosen))
    with step("wheel and source"):
        artifacts.python(REPOSITORY, output)
    with step("chart") as say:
        artifacts.chart(REPOSITORY, output, images, say)
    typer.echo(artifacts.checksums(output).read_text(), nl=False)


@app.command()
def notes() -> None:
    """Print the changelog's top section."""
    typer.echo(versions.changelog(REPOSITORY).text)


def _documents(base: Base | None) -> dict[str, str]:
    go = run_program(["go", "env", "GOVERSION"], cwd=IMAGES / "runner").strip()
    return sbom.texts(versions.project(REPOSITORY), base=base, go_version=go)


def _base(option: str) -> Base | None:
    if not option:
        return None
    kind, _, reference = option.partition("=")
    if kind != KIND or not reference:
        raise ReleaseError(f"--base is {KIND}=IMAGE, not {option}")
    return bases.parse(reference)


if __name__ == "__main__":
    try:
        app()
    except (ReleaseError, BuildError, TestbedError) as error:
        sys.stderr.write(f"release: {error}\n")
        sys.exit(1)
