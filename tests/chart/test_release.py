"""The chart as a whole: versions, Artifact Hub, definitions that stay, and `helm test`."""

import shutil
import tomllib
from pathlib import Path
from typing import Any

import yaml

from episode_operator.api.agent import Agent, AgentKind
from episode_operator.api.crd import definitions
from episode_operator.api.episode import EpisodeSpec
from tests.chart.cases import CASES, RELEASE, manifests, named, of_kind, pods
from tests.testbed import chart
from trainer_bridge.sources import Options, Unreadable, load

ROOT = Path(__file__).parents[2]
CHART: dict[str, Any] = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TASK = chart.CHART / "files" / "test-task"


def annotation(name: str) -> Any:
    return yaml.safe_load(CHART["annotations"][f"artifacthub.io/{name}"])


def test_the_charts_version_is_the_packages() -> None:
    assert CHART["name"] == PROJECT["name"]
    assert CHART["version"] == CHART["appVersion"] == PROJECT["version"]
    values = yaml.safe_load((chart.CHART / "values.yaml").read_text())
    operator, bridge = values["operator"], values["bridge"]
    ours = {operator["image"], operator["runnerImage"], bridge["image"]}
    assert ours == {
        f"episode-{name}:{PROJECT['version']}" for name in ("operator", "runner", "bridge")
    }
    assert PROJECT["version"] in (ROOT / "CHANGELOG.md").read_text()


def test_artifact_hub_is_told_of_the_definitions() -> None:
    assert annotation("license") == PROJECT["license"]
    told = {one["name"]: one for one in annotation("crds")}
    made = {one["metadata"]["name"]: one["spec"] for one in definitions().values()}
    assert told.keys() == made.keys()
    for name, spec in made.items():
        (version,) = spec["versions"]
        assert told[name]["kind"] == spec["names"]["kind"]
        assert told[name]["version"] == version["name"]
        schema = version["schema"]["openAPIV3Schema"]
        assert told[name]["description"] == schema["description"]


def test_artifact_hub_shows_an_episode_that_is_valid() -> None:
    (example,) = annotation("crdsExamples")
    assert example["apiVersion"] == "episodes.dev/v1alpha1"
    EpisodeSpec.model_validate(example["spec"])


def test_definitions_are_upgraded_with_the_chart_and_never_deleted() -> None:
    installed = of_kind("defaults", "CustomResourceDefinition")
    assert sorted(one["metadata"]["name"] for one in installed) == sorted(
        one["metadata"]["name"] for one in definitions().values()
    )
    for one in installed:
        assert one["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        assert "helm.sh/hook" not in one["metadata"]["annotations"]
    assert of_kind("no CRDs", "CustomResourceDefinition") == []
    assert not (chart.CHART / "crds").exists(), "Helm would never upgrade what is there"


def test_objects_of_the_test_are_hooks_and_go_with_it() -> None:
    hooks = [one for one in manifests("defaults") if one["metadata"]["name"] == f"{RELEASE}-test"]
    assert {one["kind"] for one in hooks} == {
        *("Pod", "ConfigMap", "NetworkPolicy"),
        *("ServiceAccount", "Role", "RoleBinding"),
    }
    for one in hooks:
        annotations = one["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "test"
        policies = annotations["helm.sh/hook-delete-policy"].split(",")
        assert ("hook-succeeded" in policies) is (one["kind"] != "Pod")
        assert "before-hook-creation" in policies
    assert "test" not in pods("only a bridge")


def test_the_test_looks_where_the_operator_does() -> None:
    assert named("namespaces", "Role", f"{RELEASE}-test")["metadata"]["namespace"] == "team-a"
    (container,) = pods("namespaces")["test"]["spec"]["containers"]
    assert "--namespace=team-a" in container["args"]


def test_the_test_mounts_a_task_that_can_be_read() -> None:
    pod = pods("defaults")["test"]["spec"]
    data = named("defaults", "ConfigMap", f"{RELEASE}-test")["data"]
    (container,) = pod["containers"]
    mounted = {
        mount["mountPath"].removeprefix("/task/"): data[mount["subPath"]]
        for mount in container["volumeMounts"]
        if mount["name"] == "task"
    }
    files = [file for file in TASK.rglob("*") if file.is_file()]
    assert mounted == {str(file.relative_to(TASK)): file.read_text() for file in files}
    (task,) = load(TASK, Options(image="busybox:1.37"))
    assert not isinstance(task, Unreadable)
    assert task.notes == ()
    agent = Agent(kind=AgentKind.ORACLE)
    assert task.build(agent, prefix="test").spec.task.image == "busybox:1.37"
    assert container["command"] == ["python3", "-m", "episodectl", "golden", "/task"]


def test_notes_say_what_was_installed(tmp_path: Path) -> None:
    notes = notes_of("everything", tmp_path / "chart")
    for told in (
        f"helm test {RELEASE} -n default --logs",
        f"http://{RELEASE}-vllm.default.svc:8000",
        f"http://{RELEASE}-atropos.default.svc:8000",
        "-l episodes.dev/run=maths",
        "`helm uninstall` leaves the CustomResourceDefinitions",
    ):
        assert told in notes
    assert "ClientIP" not in notes


def test_notes_warn_of_replicas_that_an_operator_does_not_use(tmp_path: Path) -> None:
    assert "vllm.sessionAffinity is ClientIP" in notes_of("replicas", tmp_path / "chart")


def notes_of(case: str, copy: Path) -> str:
    """The notes, which Helm shows only with a cluster: here as a template of a copy."""
    shutil.copytree(chart.CHART, copy)
    text = (copy / "templates" / "NOTES.txt").read_text()
    (copy / "templates" / "_notes.tpl").write_text(f'{{{{ define "notes" }}}}{text}{{{{ end }}}}')
    (copy / "templates" / "notes.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\n"
        'data: {notes: {{ include "notes" . | quote }}}\n'
    )
    shown = chart.helm(
        *("template", RELEASE, str(copy), "--show-only=templates/notes.yaml"),
        f"--kube-version={chart.KUBE_VERSION}",
        values=CASES[case],
    )
    return str(yaml.safe_load(shown)["data"]["notes"])
