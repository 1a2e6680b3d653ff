"""`make release` in full, into a folder of the test: wheel, source, chart, SBOMs, checksums."""

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from images.release import versions
from tests.testbed import chart

ROOT = Path(__file__).parents[2]
VERSION = versions.project(ROOT).version
DIGEST = "5" * 64
IMAGES = ("operator", "runner", "bridge")


def build(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "images.release", "build", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    references = folder / "images.json"
    named = {name: f"registry.example.com/{name}@sha256:{DIGEST}" for name in IMAGES}
    references.write_text(json.dumps({**named, "task-python": "another"}))
    output = folder / "dist"
    output.mkdir()
    (output / "left-over.whl").touch()
    base = f"python=python:3.11-slim-bookworm@sha256:{DIGEST}"
    done = build(f"--output={output}", f"--references={references}", f"--base={base}")
    assert done.returncode == 0, done.stderr
    return output


def test_all_files_are_there_and_no_others(dist: Path) -> None:
    assert {str(file.relative_to(dist)) for file in dist.rglob("*") if file.is_file()} == {
        "SHA256SUMS",
        f"episode-operator-{VERSION}.tgz",
        f"episode_operator-{VERSION}-py3-none-any.whl",
        f"episode_operator-{VERSION}.tar.gz",
        *(f"sbom/{name}.cdx.json" for name in IMAGES),
    }


def test_the_checksums_hold_and_are_of_all_files(dist: Path) -> None:
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    checked = subprocess.run(check, cwd=dist, capture_output=True, text=True, check=True)
    assert checked.stdout.count(": OK\n") == 6


def test_the_packaged_chart_names_the_images_that_were_given(dist: Path) -> None:
    packaged = str(dist / f"episode-operator-{VERSION}.tgz")
    values = {
        "bridge": {
            "enabled": True,
            "config": {
                "run": "maths",
                "tasks": {"builtin": "coding"},
                "sink": {"kind": "jsonl", "folder": "/data"},
            },
        }
    }
    shown = chart.helm(
        "template", "rl", packaged, f"--kube-version={chart.KUBE_VERSION}", values=values
    )
    pods = [
        one["spec"]["template"]["spec"]
        for one in yaml.safe_load_all(shown)
        if one["kind"] == "Deployment"
    ]
    assert {container["image"] for pod in pods for container in pod["containers"]} == {
        f"registry.example.com/{name}@sha256:{DIGEST}" for name in ("operator", "bridge")
    }
    assert f"registry.example.com/runner@sha256:{DIGEST}" in shown


def test_the_wheel_has_the_programs_and_the_source_what_builds_it(dist: Path) -> None:
    with zipfile.ZipFile(dist / f"episode_operator-{VERSION}-py3-none-any.whl") as wheel:
        names = wheel.namelist()
    assert {name.partition("/")[0] for name in names} == {
        *("episode_operator", "episodectl", "trainer_bridge"),
        f"episode_operator-{VERSION}.dist-info",
    }
    with tarfile.open(dist / f"episode_operator-{VERSION}.tar.gz") as source:
        inside = {name.partition("/")[2] for name in source.getnames()}
    assert {"pyproject.toml", "LICENSE", "trainer_bridge/cli.py", "Makefile"} <= inside


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--tag=v0.0.0"], "the tag is v0.0.0"),
        (["--base=busybox=busybox:musl"], "--base is python=IMAGE"),
    ],
)
def test_what_is_refused_leaves_the_folder_as_it_was(
    options: list[str], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "kept").touch()
    done = build(f"--output={tmp_path}", *options)
    assert done.returncode == 1
    assert reason in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]
