"""Build and push the project's images: `python -m images.build --registry HOST:PORT [NAME...]`.

An image whose inputs have not changed is in the registry already, under a tag that is the hash of
those inputs, and is not built again. The digest-pinned references are printed and written to
`images/build/images.json`, from name to `HOST:PORT/episode-operator/NAME@sha256:...`.
"""

import fcntl
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Annotated

import typer

from images._contexts import ALL, IMAGES, Image
from images._engines import Engine, choose, pushed_digest
from images._shell import CACHE, BuildError, say

PROJECT = "episode-operator"
REFERENCES = IMAGES / "build" / "images.json"
WORKERS = 2


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Images; all by default.")] = None,
    registry: Annotated[str, typer.Option(help="HOST[:PORT][/FOLDER] to push to.")] = "",
    plain_http: Annotated[bool, typer.Option(help="The registry speaks HTTP, not TLS.")] = False,
    engine: Annotated[str, typer.Option(help="auto, buildah or docker.")] = "auto",
    base: Annotated[
        list[str] | None, typer.Option(help="KIND=IMAGE: a base to pull; python, busybox or musl.")
    ] = None,
) -> None:
    """Build what has changed, push it, and write the references."""
    known = {image.name: image for image in ALL}
    wanted = names or list(known)
    if not registry:
        raise typer.BadParameter("--registry is needed, for example --registry localhost:5000")
    if unknown := sorted(set(wanted) - set(known)):
        raise typer.BadParameter(f"no such image: {', '.join(unknown)}; there are {list(known)}")
    bases = dict(item.split("=", 1) for item in base or ())
    builder = Builder(choose(engine), registry, plain_http, bases)
    with _alone():
        with ThreadPoolExecutor(WORKERS) as pool:
            references = dict(pool.map(lambda name: (name, builder.ensure(known[name])), wanted))
        builder.tidy()
    _record(references)
    typer.echo(json.dumps(references, indent=2, sort_keys=True))


def _record(references: dict[str, str]) -> None:
    """Add the references to those known; a reader sees the old file or the new one."""
    written = json.loads(REFERENCES.read_text()) if REFERENCES.exists() else {}
    REFERENCES.parent.mkdir(parents=True, exist_ok=True)
    partial = REFERENCES.with_suffix(".part")
    partial.write_text(json.dumps({**written, **references}, indent=2, sort_keys=True) + "\n")
    partial.replace(REFERENCES)


@contextmanager
def _alone() -> Iterator[None]:
    """Let one build of this user run at a time: they share build folders and layers."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Builder:
    """Builds images with one engine for one registry."""

    def __init__(
        self, engine: Engine, registry: str, plain_http: bool, bases: dict[str, str]
    ) -> None:
        self._engine = engine
        self._registry = registry
        self._plain_http = plain_http
        self._bases = bases
        self._built = False

    def ensure(self, image: Image) -> str:
        """The digest-pinned reference of the image, built and pushed if the registry lacks it."""
        started = time.monotonic()
        repository = f"{PROJECT}/{image.name}"
        tag = image.digest(self._base_key(image.base))
        digest = pushed_digest(self._registry, repository, tag, self._plain_http)
        if digest is None:
            say(f"building {image.name}")
            self._built = True
            digest = self._build(image, f"{self._registry}/{repository}:{tag}")
            say(f"built {image.name} in {time.monotonic() - started:.0f} s")
        return f"{self._registry}/{repository}@{digest}"

    def tidy(self) -> None:
        """Free space, if anything was built."""
        if self._built:
            self._engine.tidy()

    def _build(self, image: Image, tag: str) -> str:
        context = CACHE / "contexts" / image.name
        context.mkdir(parents=True, exist_ok=True)
        image.prepare(context)
        base = None if image.base is None else self._base(image.base)
        self._engine.build(image.containerfile, context, base, tag)
        return self._engine.push(tag, self._plain_http)

    def _base(self, kind: str) -> str | None:
        return self._bases[kind] if kind in self._bases else self._engine.base(kind)

    def _base_key(self, kind: str | None) -> str:
        if kind is None:
            return ""
        return self._bases[kind] if kind in self._bases else self._engine.base_key(kind)


if __name__ == "__main__":
    try:
        typer.run(main)
    except BuildError as error:
        say(f"images: {error}")
        sys.exit(1)
