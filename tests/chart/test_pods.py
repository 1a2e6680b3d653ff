"""Every pod of the chart is hardened and limited, and has no rights that it does not need."""

from typing import Any

import pytest

from tests.chart.cases import CASES, NAMESPACE, RELEASE, named, of_kind, pods

WITH_RIGHTS = {"operator", "bridge", "test"}
"""Components that ask the API server."""

AS_ROOT = {"vllm"}
"""Components whose image is not made for another user."""

every_case = pytest.mark.parametrize("case", CASES)


def container_of(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["spec"]["containers"]
    assert isinstance(container, dict)
    return container


@every_case
def test_containers_are_hardened(case: str) -> None:
    for component, pod in pods(case).items():
        context = container_of(pod)["securityContext"]
        assert context["readOnlyRootFilesystem"] is True, component
        assert context["allowPrivilegeEscalation"] is False, component
        assert context["capabilities"] == {"drop": ["ALL"]}, component
        both = {**pod["spec"].get("securityContext", {}), **context}
        assert both["seccompProfile"] == {"type": "RuntimeDefault"}, component
        assert both.get("runAsNonRoot", False) is (component not in AS_ROOT), component


@every_case
def test_containers_are_limited(case: str) -> None:
    for component, pod in pods(case).items():
        resources = container_of(pod)["resources"]
        assert resources["requests"].keys() >= {"cpu", "memory"}, component
        assert "memory" in resources["limits"], component
        for volume in pod["spec"]["volumes"]:
            assert volume.get("emptyDir", {"sizeLimit": ""}).keys() >= {"sizeLimit"}, component


@every_case
def test_every_pod_has_a_place_to_write(case: str) -> None:
    for pod in pods(case).values():
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        mounts = {mount["mountPath"]: mount["name"] for mount in container_of(pod)["volumeMounts"]}
        assert "/tmp" in mounts
        assert set(mounts.values()) == volumes


@every_case
def test_a_token_only_where_it_is_needed(case: str) -> None:
    accounts = {one["metadata"]["name"]: one for one in of_kind(case, "ServiceAccount")}
    for component, pod in pods(case).items():
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is (component in WITH_RIGHTS), component
        assert spec["enableServiceLinks"] is False, component
        assert (spec.get("serviceAccountName") in accounts) is (component in WITH_RIGHTS)
    assert all(one["automountServiceAccountToken"] is False for one in accounts.values())


@every_case
def test_rights_name_what_they_are_for(case: str) -> None:
    for role in of_kind(case, "Role", "ClusterRole"):
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "secrets" not in rule["resources"] or CASES[case]["operator"]["secretReferences"]
    for binding in of_kind(case, "RoleBinding", "ClusterRoleBinding"):
        (subject,) = binding["subjects"]
        assert subject["namespace"] == NAMESPACE
        assert named(case, "ServiceAccount", subject["name"])


@every_case
def test_no_variable_is_set_twice(case: str) -> None:
    for pod in pods(case).values():
        names = [variable["name"] for variable in container_of(pod).get("env", [])]
        assert len(names) == len(set(names))


def test_the_model_is_kept_in_the_cache() -> None:
    container = container_of(pods("model server")["vllm"])
    assert {"name": "HF_HOME", "value": "/cache/huggingface"} in container["env"]
    assert {"name": "HOME", "value": "/cache"} in container["env"]
    assert {"name": "cache", "mountPath": "/cache"} in container["volumeMounts"]


@pytest.mark.parametrize(
    ("case", "source"),
    [
        ("model server", {"emptyDir": {"sizeLimit": "100Gi"}}),
        ("replicas", {"persistentVolumeClaim": {"claimName": "models"}}),
        ("autoscaled", {"hostPath": {"path": "/var/models", "type": "DirectoryOrCreate"}}),
    ],
)
def test_where_the_cache_lies(case: str, source: dict[str, Any]) -> None:
    volumes = pods(case)["vllm"]["spec"]["volumes"]
    assert {"name": "cache", **source} in volumes


def test_the_environment_of_the_values_goes_before_the_charts() -> None:
    container = container_of(pods("a token of the hub")["vllm"])
    given = CASES["a token of the hub"]["vllm"]
    assert container["env"] == [{"name": "HOME", "value": "/cache"}, *given["env"]]
    assert container["envFrom"] == given["envFrom"]


def test_the_test_does_only_what_an_episode_takes() -> None:
    allowed = {
        (resource, verb)
        for rule in named("defaults", "Role", f"{RELEASE}-test")["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert allowed == {
        *(("episodes", verb) for verb in ("get", "create", "delete")),
        *(("episoderesults", verb) for verb in ("get", "delete")),
        *(("configmaps", verb) for verb in ("create", "delete")),
    }
