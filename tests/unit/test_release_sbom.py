"""Bills of materials: all that is locked is in them, nothing else, and always the same bytes."""

import base64
import json
import re
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from images._contexts import ABI
from images.release import bases, locks, modules, sbom, versions
from images.release.errors import ReleaseError

ROOT = Path(__file__).parents[2]
PROJECT = versions.project(ROOT)
DIGEST = "5" * 64
BASE = bases.parse(f"python:3.11-slim-bookworm@sha256:{DIGEST}")
PINNED = re.compile(r"^([\w.-]+)==(\S+)( ; .*)? \\\n((?:    --hash=.*\n)+)", re.MULTILINE)
NOT_INSTALLED = {"colorama", "httpx2-jsfetch"}
"""Locked for other systems than Linux."""

Document = dict[str, Any]


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return sbom.texts(PROJECT, base=BASE, go_version="go1.26.8")


@pytest.fixture(scope="module")
def documents(texts: dict[str, str]) -> dict[str, Document]:
    return {image: json.loads(text) for image, text in texts.items()}


def by_purl(document: Document) -> dict[str, Document]:
    return {one["purl"]: one for one in document["components"]}


def pinned(image: str) -> dict[tuple[str, str], tuple[str, set[str]]]:
    """Marker and hashes of each name and version that a lock pins, read by other means."""
    text = (ROOT / "requirements" / f"{image}.lock").read_text()
    return {
        (name, version): (marker, set(re.findall(r"sha256:(\w{64})", hashes)))
        for name, version, marker, hashes in PINNED.findall(text)
    }


@pytest.mark.parametrize("image", sbom.PYTHON_IMAGES)
def test_every_locked_package_is_there_with_version_purl_and_hashes(
    image: str, documents: dict[str, Document]
) -> None:
    found = by_purl(documents[image])
    unconditional = {key: hashes for key, (marker, hashes) in pinned(image).items() if not marker}
    assert len(unconditional) > 40
    for (name, version), hashes in unconditional.items():
        component = found[f"pkg:pypi/{name}@{version}"]
        assert (component["name"], component["version"]) == (name, version)
        (files,) = component["externalReferences"]
        assert files["type"] == "distribution"
        assert {one["content"] for one in files["hashes"]} == hashes
        assert {one["alg"] for one in files["hashes"]} == {"SHA-256"}


@pytest.mark.parametrize("image", sbom.PYTHON_IMAGES)
def test_of_conditional_packages_those_of_the_images_python_are_there(
    image: str, documents: dict[str, Document]
) -> None:
    every = pinned(image)
    conditional = {key for key, (marker, _) in every.items() if marker}
    older = {key for key in conditional if "python_full_version >= '3.12'" in every[key][0]}
    expected = {key for key in conditional - older if key[0] not in NOT_INSTALLED}
    listed = {
        (one["name"], one["version"])
        for one in documents[image]["components"]
        if one["type"] == "library"
    }
    assert ("numpy", "2.5.5") in older
    assert listed & conditional == expected
    assert listed <= every.keys()


@pytest.mark.parametrize("image", sbom.PYTHON_IMAGES)
def test_what_is_listed_is_what_such_a_python_has_installed(
    image: str, documents: dict[str, Document]
) -> None:
    assert sys.version_info[:2] == ABI, "the images' Python, which the tests need too"
    listed = [one for one in documents[image]["components"] if one["type"] == "library"]
    assert {one["name"]: one["version"] for one in listed} == {
        one["name"]: metadata.version(one["name"]) for one in listed
    }


@pytest.mark.parametrize("image", sbom.PUBLISHED)
def test_all_that_is_listed_is_needed_by_the_image(
    image: str, documents: dict[str, Document]
) -> None:
    document = documents[image]
    needs = {one["ref"]: set(one.get("dependsOn", ())) for one in document["dependencies"]}
    reached, new = set[str](), {document["metadata"]["component"]["bom-ref"]}
    while new:
        reached |= new
        new = set[str]().union(*(needs[one] for one in new)) - reached
    assert reached == needs.keys()
    assert {one["bom-ref"] for one in document["components"]} < reached


def test_a_package_is_needed_by_those_that_ask_for_it(documents: dict[str, Document]) -> None:
    needs = {one["ref"]: one.get("dependsOn", []) for one in documents["operator"]["dependencies"]}
    found = {one["name"]: one["bom-ref"] for one in documents["operator"]["components"]}
    assert found["aiohappyeyeballs"] in needs[found["aiohttp"]]
    assert found["aiohttp"] in needs["project"]
    assert found["aiohappyeyeballs"] not in needs["project"]
    assert set(needs["image:operator"]) == {"project", "base"}


@pytest.mark.parametrize("image", sbom.PUBLISHED)
def test_they_are_valid_cyclonedx(image: str, texts: dict[str, str]) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(texts[image]) is None


@pytest.mark.parametrize("image", sbom.PUBLISHED)
def test_they_are_of_this_version(image: str, documents: dict[str, Document]) -> None:
    of = documents[image]["metadata"]["component"]
    assert (of["type"], of["name"]) == ("container", f"episode-operator/{image}")
    (own,) = (one for one in documents[image]["components"] if one["type"] == "application")
    assert of["version"] == own["version"] == PROJECT.version


def test_the_base_is_named_with_its_digest(documents: dict[str, Document]) -> None:
    (base,) = (one for one in documents["bridge"]["components"] if one["bom-ref"] == "base")
    assert base["version"] == "3.11-slim-bookworm"
    assert base["hashes"] == [{"alg": "SHA-256", "content": DIGEST}]
    assert base["purl"] == (
        f"pkg:oci/python@sha256:{DIGEST}"
        "?repository_url=docker.io/library/python&tag=3.11-slim-bookworm"
    )


def test_without_a_digest_the_base_of_the_containerfile_is_named() -> None:
    base = bases.default(ROOT / "images" / "operator" / "Containerfile")
    assert base is not None
    assert base == replace(BASE, sha256=None)
    text = sbom.of_python(PROJECT, "operator", "operator.lock", [], base)
    (listed,) = (one for one in json.loads(text)["components"] if one["bom-ref"] == "base")
    assert listed["version"] == "3.11-slim-bookworm"
    assert "hashes" not in listed
    assert "purl" not in listed


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("python", ("docker.io/library/python", None, None)),
        ("localhost:5000/python", ("localhost:5000/python", None, None)),
        ("localhost:5000/a/python:3", ("localhost:5000/a/python", "3", None)),
        (f"a.example/python@sha256:{DIGEST}", ("a.example/python", None, DIGEST)),
    ],
)
def test_references(reference: str, expected: tuple[str, str | None, str | None]) -> None:
    base = bases.parse(reference)
    assert (base.repository, base.tag, base.sha256) == expected
    assert base.name == "python"


@pytest.mark.parametrize("reference", ["", "python@sha256:12", "python 3"])
def test_what_is_no_reference_is_refused(reference: str) -> None:
    with pytest.raises(ReleaseError, match="no reference"):
        bases.parse(reference)


def test_the_runner_has_its_modules_and_the_standard_library(
    documents: dict[str, Document],
) -> None:
    go_sum = (ROOT / "images" / "runner" / "go.sum").read_text()
    found = by_purl(documents["runner"])
    lines = [line.split() for line in go_sum.splitlines() if "/go.mod " not in line]
    for path, version, sum_ in lines:
        (listed,) = found[f"pkg:golang/{path}@{version}"]["hashes"]
        assert bytes.fromhex(listed["content"]) == base64.b64decode(sum_.removeprefix("h1:"))
    assert "pkg:golang/stdlib@1.26.8" in found
    assert f"pkg:golang/episodes.dev/runner@v{PROJECT.version}" in found
    assert len(found) == len(lines) + 2


def test_a_module_without_a_hash_is_refused() -> None:
    go_mod = "module a.example/b\n\ngo 1.26.0\n\nrequire (\n\tc.example/d v1.2.3 // indirect\n)\n"
    go_sum = "c.example/d v1.2.3 h1:AAAA\n"
    assert modules.name(go_mod) == "a.example/b"
    assert modules.required(go_mod, go_sum) == [modules.Module("c.example/d", "v1.2.3", "000000")]
    with pytest.raises(ReleaseError, match=r"no hash of c\.example/d v1\.2\.3"):
        modules.required(go_mod, "c.example/d v1.2.3/go.mod h1:AAAA\n")


def test_the_same_content_gives_the_same_bytes(texts: dict[str, str]) -> None:
    assert sbom.texts(PROJECT, base=BASE, go_version="go1.26.8") == texts
    assert not any("timestamp" in text for text in texts.values())


def test_other_content_has_another_serial_number() -> None:
    made = [
        json.loads(sbom.of_go(PROJECT, "runner", "a.example/b", [], version))["serialNumber"]
        for version in ("go1.26.8", "go1.26.9", "go1.26.8")
    ]
    assert made[0] == made[2] != made[1]


def test_what_is_not_valid_is_not_written() -> None:
    unlicensed = replace(PROJECT, license="No-Such-License")
    with pytest.raises(ReleaseError, match="not valid"):
        sbom.of_go(unlicensed, "runner", "a.example/b", [], "go1.26.8")


@pytest.mark.parametrize("line", ["a==1", "a>=1 \\\n    --hash=sha256:" + DIGEST])
def test_what_is_not_locked_is_refused(line: str) -> None:
    with pytest.raises(ReleaseError, match="not locked"):
        locks.read(f"{line}\n    # via b\n")


def test_a_lock_that_differs_between_machines_is_refused() -> None:
    pins = locks.read(
        f"a==1 ; platform_machine == 'aarch64' \\\n    --hash=sha256:{DIGEST}\n    # via b\n"
    )
    assert [pin.via for pin in pins] == [("b",)]
    with pytest.raises(ReleaseError, match="x86_64 and aarch64"):
        locks.in_image(pins)
