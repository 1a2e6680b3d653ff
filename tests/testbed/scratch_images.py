"""Images of one static program (pause, CoreDNS), put into the registry without a builder."""

import hashlib
import io
import json
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.paths import REGISTRY
from tests.testbed.shell import run, succeeds


@dataclass(frozen=True)
class ScratchImage:
    """A program that is all of its image; `name` is the repository in the registry."""

    name: str
    program: Path
    entrypoint: tuple[str, ...]

    @property
    def reference(self) -> str:
        """`registry/name:tag`, where the tag is a hash of the content."""
        digest = hashlib.sha256(self.program.read_bytes())
        digest.update(repr(self.entrypoint).encode())
        return f"{REGISTRY}/{self.name}:{digest.hexdigest()[:16]}"


def push(image: ScratchImage) -> None:
    """Push unless the registry has it already."""
    target = f"docker://{image.reference}"
    if succeeds(["skopeo", "inspect", "--raw", "--tls-verify=false", target]):
        return
    with tempfile.TemporaryDirectory(prefix="episode-testbed-") as folder:
        archive = Path(folder) / "image.tar"
        _write_archive(image, archive)
        copy = ["skopeo", "copy", "--insecure-policy", "--dest-tls-verify=false"]
        run([*copy, f"docker-archive:{archive}", target])


def _write_archive(image: ScratchImage, target: Path) -> None:
    """Write the layout of `docker save`: a configuration, one layer and a manifest."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        _add(tar, image.program.name, image.program.read_bytes(), mode=0o755)
    content = layer.getvalue()
    layer_digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": list(image.entrypoint)},
            "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": None, "Layers": ["layer.tar"]}]
    with tarfile.open(target, mode="w") as tar:
        _add(tar, config_name, config)
        _add(tar, "layer.tar", content)
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    tar.addfile(member, io.BytesIO(content))
