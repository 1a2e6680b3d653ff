"""The two programs that build and push images."""

import json
import re
import shutil
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Protocol

from images import _bases
from images._shell import CACHE, BuildError, download, run

MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)


QUICK_COMPRESSION = ("--compression-format=zstd", "--compression-level=3")


class Engine(Protocol):
    """What building needs of Docker or buildah."""

    def base(self, name: str) -> str | None:
        """An image to build upon; None where the Containerfile's own default can be pulled."""

    def base_key(self, name: str) -> str:
        """What decides the content of that base."""

    def build(self, containerfile: Path, context: Path, base: str | None, tag: str) -> None:
        """Build `context` and call the result `tag`."""

    def push(self, tag: str, plain_http: bool) -> str:
        """Push `tag` and return the manifest's digest, `sha256:...`."""

    def tidy(self) -> None:
        """Free space after a run, while no build is under way."""


class Buildah:
    """buildah without a daemon, with its storage in the cache folder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        storage = ["--root", str(CACHE / "storage"), "--runroot", "/run/episode-images"]
        self._buildah = ["buildah", *storage]

    def base(self, name: str) -> str | None:
        """Import the base made on this machine, once."""
        tag = f"localhost/base-{name}:{self.base_key(name)}"
        with self._lock:
            images = json.loads(run([*self._buildah, "images", "--json"]) or "[]")
            if not any(tag in (image.get("names") or ()) for image in images or ()):
                archive = _bases.tar(name)
                container = run([*self._buildah, "from", "scratch"]).strip()
                run([*self._buildah, "add", "--quiet", container, archive, "/"])
                run([*self._buildah, "commit", "--quiet", "--rm", container, tag])
        return tag

    def base_key(self, name: str) -> str:
        """The hash of the base's packages."""
        return _bases.key(name)

    def build(self, containerfile: Path, context: Path, base: str | None, tag: str) -> None:
        """Build in a chroot: no user namespaces and no network are needed."""
        argument = [] if base is None else [f"--build-arg=BASE={base}"]
        options = ["--isolation=chroot", "--quiet", "--layers", *argument]
        command = [*self._buildah, "build", *options, "-f", str(containerfile), "-t", tag]
        run([*command, str(context)])

    def push(self, tag: str, plain_http: bool) -> str:
        """Push, then keep the newest build of each image: its layers serve the next one."""
        with tempfile.NamedTemporaryFile("r", suffix=".digest") as digest:
            verify = f"--tls-verify={'false' if plain_http else 'true'}"
            options = ["--quiet", verify, f"--digestfile={digest.name}", *QUICK_COMPRESSION]
            download(lambda: run([*self._buildah, "push", *options, tag, f"docker://{tag}"]))
            pushed = digest.read().strip()
        with self._lock:
            newest = f"localhost/{tag.partition('/')[2].rpartition(':')[0]}:newest"
            run([*self._buildah, "tag", tag, newest])
            run([*self._buildah, "rmi", tag])
        return pushed

    def tidy(self) -> None:
        """Remove what no newest image needs, and containers that a failed build left."""
        run([*self._buildah, "rm", "--all"])
        run([*self._buildah, "rmi", "--prune"])


class Docker:
    """A Docker engine; it pulls the Containerfiles' default bases."""

    def base(self, name: str) -> str | None:
        """None: the default is pulled."""
        return None

    def base_key(self, name: str) -> str:
        """Nothing beyond the Containerfile, which names the base."""
        return "default"

    def build(self, containerfile: Path, context: Path, base: str | None, tag: str) -> None:
        """Build with the engine's own network, for the few instructions that install."""
        argument = [] if base is None else [f"--build-arg=BASE={base}"]
        command = ["docker", "build", "--quiet", *argument, "-f", str(containerfile), "-t", tag]
        download(lambda: run([*command, str(context)]))

    def push(self, tag: str, plain_http: bool) -> str:
        """Push; the engine decides by its own configuration which registries are plain HTTP."""
        output = download(lambda: run(["docker", "push", tag]))
        found = re.search(r"digest: (sha256:[0-9a-f]{64})", output)
        if found is None:
            raise BuildError(f"docker push named no digest:\n{output}")
        return found[1]

    def tidy(self) -> None:
        """Leave it to the user: the engine's images are not only ours."""


def choose(name: str) -> Engine:
    """`docker` or `buildah`; `auto` takes Docker where its engine answers."""
    if name == "docker" or (name == "auto" and _docker_answers()):
        return Docker()
    if name in ("auto", "buildah") and shutil.which("buildah"):
        return Buildah()
    raise BuildError("neither a Docker engine nor buildah is there to build images")


def manifest_url(registry: str, repository: str, tag: str, plain_http: bool) -> str:
    """Where a registry has a tag; `registry` may go on with a folder, as `HOST/OWNER`."""
    host, _, folder = registry.partition("/")
    path = f"{folder}/{repository}" if folder else repository
    return f"{'http' if plain_http else 'https'}://{host}/v2/{path}/manifests/{tag}"


def pushed_digest(registry: str, repository: str, tag: str, plain_http: bool) -> str | None:
    """The digest of a tag that the registry has; None if it has none, or wants a login to tell."""
    url = manifest_url(registry, repository, tag, plain_http)
    request = urllib.request.Request(url, method="HEAD", headers={"Accept": ", ".join(MANIFESTS)})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return str(answer.headers["Docker-Content-Digest"])
    except urllib.error.HTTPError as error:
        if error.code in (401, 403, 404):
            return None
        raise BuildError(f"the registry answered {error.code} to {url}") from error
    except OSError as error:
        raise BuildError(f"the registry {registry} does not answer: {error}") from error


def _docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    probe = ["docker", "info", "--format", "{{.ID}}"]
    return subprocess.run(probe, capture_output=True, check=False, timeout=20).returncode == 0
