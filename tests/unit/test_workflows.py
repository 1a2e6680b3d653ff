"""The workflows of the forge: they run what the README gives, may do little, and show no secret."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "workflows"
NAMES = ("ci", "release")
MAY_WRITE = {
    ("release", "images"): {"packages"},
    ("release", "publish"): {"contents", "packages", "id-token"},
}
"""All that a job may change, by workflow and job."""

SECRET = re.compile(r"\$\{\{[^}]*\b(?:secrets|github\.token)\b[^}]*\}\}")
MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")
TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
USES = re.compile(r"^\s*-? *uses: (\S+)(.*)$", re.MULTILINE)

Workflow = dict[str, Any]


def workflow(name: str) -> Workflow:
    loaded: Workflow = yaml.safe_load((FOLDER / f"{name}.yml").read_text())
    return loaded


def steps(name: str) -> Iterator[dict[str, Any]]:
    for job in workflow(name)["jobs"].values():
        yield from job.get("steps", ())


def scripts(name: str) -> str:
    return "\n".join(step["run"] for step in steps(name) if "run" in step)


def test_there_are_no_others() -> None:
    assert {file.name for file in FOLDER.iterdir()} == {f"{name}.yml" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_job_may_write_only_what_it_is_for(name: str) -> None:
    loaded = workflow(name)
    default = loaded["permissions"]
    assert set(default.values()) <= {"read"}
    for job, content in loaded["jobs"].items():
        granted = content.get("permissions", default)
        assert isinstance(granted, dict), "a list, neither read-all nor write-all"
        wrote = {scope for scope, access in granted.items() if access == "write"}
        assert wrote == MAY_WRITE.get((name, job), set()), job
        assert set(granted.values()) <= {"read", "write"}


def test_ci_runs_what_is_in_the_repository_for_it() -> None:
    commands = scripts("ci").splitlines()
    (line,) = [line for line in commands if ".ci/run" in line]
    assert line.endswith(" .ci/run")
    assert not MAKE.search(scripts("ci"))
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    assert "exec make test\n" in (ROOT / ".ci" / "run").read_text()


def test_ci_is_asked_of_every_change_and_of_every_release() -> None:
    content: dict[Any, Any] = workflow("ci")
    asked = content[True]  # YAML 1.1 reads the key `on` so
    assert {"push", "pull_request", "workflow_call"} == set(asked)
    jobs = workflow("release")["jobs"]
    (tested,) = (job for job, content in jobs.items() if "uses" in content)
    assert jobs[tested]["uses"] == "./.github/workflows/ci.yml"
    assert tested in jobs["images"]["needs"]
    assert "images" in jobs["publish"]["needs"]


@pytest.mark.parametrize("name", NAMES)
def test_make_targets_exist(name: str) -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text()))
    assert set(MAKE.findall(scripts(name))) <= targets


def test_a_release_makes_images_and_files() -> None:
    assert set(MAKE.findall(scripts("release"))) == {"images", "release"}
    variables = set(re.findall(r"\b([A-Z]+)=", scripts("release")))
    assert {"BASE", "TAG", "REFERENCES", "REGISTRY", "IMAGES"} <= variables
    for variable in variables:
        assert f"$({variable})" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_scripts_hold_no_expressions(name: str) -> None:
    """An expression in a script is pasted into it: a secret, or what a stranger wrote."""
    assert "${{" not in scripts(name)


@pytest.mark.parametrize("name", NAMES)
def test_secrets_go_only_to_who_logs_in(name: str) -> None:
    expected, allowed = 0, 0
    for step in steps(name):
        expected += len(SECRET.findall(yaml.safe_dump(step, width=1000)))
        if step.get("uses", "").startswith("docker/login-action@"):
            allowed += len(SECRET.findall(step["with"]["password"]))
        for variable, value in step.get("env", {}).items():
            if SECRET.search(value):
                assert variable == "GH_TOKEN", "which gh takes by itself"
                assert variable not in step["run"]
                assert re.search(r"^gh ", step["run"], re.MULTILINE)
                allowed += 1
    assert expected == allowed
    whole = (FOLDER / f"{name}.yml").read_text()
    assert len(SECRET.findall(whole)) == expected, "none outside of steps"


@pytest.mark.parametrize("name", NAMES)
def test_scripts_show_no_environment(name: str) -> None:
    shown = r"^\s*(?:set -\w*x|printenv|env|export -p|declare -p|set)\s*$|\bset -\w*x"
    assert not re.search(shown, scripts(name), re.MULTILINE)
    assert "_TOKEN" not in scripts(name)


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_pinned_by_commit(name: str) -> None:
    used = USES.findall((FOLDER / f"{name}.yml").read_text())
    assert used
    for action, comment in used:
        if action.startswith("./"):
            assert (ROOT / action).exists()
        else:
            assert re.fullmatch(r"[\w.-]+(?:/[\w.-]+)+@[0-9a-f]{40}", action)
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment)


@pytest.mark.parametrize("name", NAMES)
def test_no_credentials_stay_in_a_checkout(name: str) -> None:
    checkouts = [
        step for step in steps(name) if step.get("uses", "").startswith("actions/checkout@")
    ]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
