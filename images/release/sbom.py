"""The bill of materials of each image that is published, in CycloneDX JSON.

The same inputs give the same bytes: there is no time in it, and its serial number is made from
its content.
"""

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cyclonedx.model import (
    ExternalReference,
    ExternalReferenceType,
    HashAlgorithm,
    HashType,
    XsUri,
)
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from images._contexts import IMAGES, LOCKS
from images.release import bases, locks, modules
from images.release.bases import Base
from images.release.errors import ReleaseError
from images.release.locks import Pin
from images.release.versions import Project

PYTHON_IMAGES = ("operator", "bridge")
PUBLISHED = ("runner", *PYTHON_IMAGES)

_SERIAL_NUMBERS = uuid.UUID("6f2d1c0e-6c55-5c0b-9b0a-5d1a3e0f7c11")


def texts(project: Project, *, base: Base | None, go_version: str) -> dict[str, str]:
    """The document of each image by its name.

    Args:
        base: what `operator` and `bridge` are built upon; that of their Containerfiles when None.
        go_version: what the runner is compiled with, as `go env GOVERSION` has it.

    Raises:
        ReleaseError: a lock or go.sum lacks something, or a document is not valid.
    """
    made = {"runner": _runner(project, go_version)}
    for image in PYTHON_IMAGES:
        chosen = base or bases.default(IMAGES / image / "Containerfile")
        assert chosen is not None  # only the runner is made from scratch
        lock = f"{image}.lock"
        pins = locks.in_image(locks.read((LOCKS / lock).read_text()))
        made[image] = of_python(project, image, lock, pins, chosen)
    return made


def write(folder: Path, documents: dict[str, str]) -> list[Path]:
    """Write `IMAGE.cdx.json` for each; the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for image, text in documents.items():
        files.append(folder / f"{image}.cdx.json")
        files[-1].write_text(text)
    return files


def of_python(project: Project, image: str, lock: str, pins: Sequence[Pin], base: Base) -> str:
    """An image of this project's Python upon a base, with the packages of a lock."""
    bom = Bom()
    root, own = _image(project, image), _own(project)
    own.purl = PackageURL("pypi", None, project.name, project.version)
    packages = {pin.name: _package(pin, lock) for pin in pins}
    upon = _base(base)
    bom.metadata.component = root
    for component in (own, upon, *packages.values()):
        bom.components.add(component)
    needs: dict[str, list[Component]] = {name: [] for name in packages}
    direct = []
    for pin in pins:
        for asking in pin.via:
            if asking == f"{project.name} (pyproject.toml)":
                direct.append(packages[pin.name])
            elif asking in needs:  # else it is asked for by what only other machines install
                needs[asking].append(packages[pin.name])
    bom.register_dependency(root, [own, upon])
    bom.register_dependency(own, direct)
    for name, asked in needs.items():
        bom.register_dependency(packages[name], asked)
    return _text(bom)


def _runner(project: Project, go_version: str) -> str:
    source = IMAGES / "runner"
    go_mod = (source / "go.mod").read_text()
    parts = modules.required(go_mod, (source / "go.sum").read_text())
    return of_go(project, "runner", modules.name(go_mod), parts, go_version)


def of_go(
    project: Project, image: str, module: str, parts: Sequence[modules.Module], go_version: str
) -> str:
    """An image of one static Go program and nothing else."""
    bom = Bom()
    root, own = _image(project, image), _own(project)
    namespace, _, name = module.rpartition("/")
    own.name, own.purl = module, PackageURL("golang", namespace, name, f"v{project.version}")
    standard = Component(
        type=ComponentType.LIBRARY,
        name="stdlib",
        version=go_version.removeprefix("go"),
        purl=PackageURL("golang", None, "stdlib", go_version.removeprefix("go")),
        bom_ref="stdlib",
    )
    built_from = [standard, *(_module(part) for part in parts)]
    bom.metadata.component = root
    for component in (own, *built_from):
        bom.components.add(component)
    bom.register_dependency(root, [own])
    bom.register_dependency(own, built_from)
    return _text(bom)


def _image(project: Project, image: str) -> Component:
    return Component(
        type=ComponentType.CONTAINER,
        name=f"{project.name}/{image}",
        version=project.version,
        bom_ref=f"image:{image}",
    )


def _own(project: Project) -> Component:
    return Component(
        type=ComponentType.APPLICATION,
        name=project.name,
        version=project.version,
        bom_ref="project",
        licenses=[DisjunctiveLicense(id=project.license)],
    )


def _base(base: Base) -> Component:
    """The base, whose own packages are those of its digest and are not listed."""
    component = Component(
        type=ComponentType.CONTAINER, name=base.name, version=base.tag, bom_ref="base"
    )
    if base.sha256 is not None:
        qualifiers = {"repository_url": base.repository, **({"tag": base.tag} if base.tag else {})}
        digest = f"sha256:{base.sha256}"
        component.purl = PackageURL("oci", None, base.name, digest, qualifiers)
        component.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=base.sha256))
    return component


def _package(pin: Pin, lock: str) -> Component:
    """A package; the lock's hashes are of its files, so they belong to its distribution."""
    purl = PackageURL("pypi", None, pin.name, pin.version)
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(str(purl)),
        comment=f"one of the files that requirements/{lock} allows",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in pin.sha256],
    )
    return Component(
        type=ComponentType.LIBRARY,
        name=pin.name,
        version=pin.version,
        purl=purl,
        bom_ref=str(purl),
        external_references=[files],
    )


def _module(module: modules.Module) -> Component:
    namespace, _, name = module.path.rpartition("/")
    purl = PackageURL("golang", namespace, name, module.version)
    return Component(
        type=ComponentType.LIBRARY,
        name=module.path,
        version=module.version,
        purl=purl,
        bom_ref=str(purl),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=module.sha256)],
    )


def _text(bom: Bom) -> str:
    document: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["metadata"]["timestamp"], document["serialNumber"]
    content = json.dumps(document, sort_keys=True)
    document["serialNumber"] = uuid.uuid5(_SERIAL_NUMBERS, content).urn
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ReleaseError(f"the bill of materials is not valid: {error}")
    return text
