"""The pod, for each kind of task."""

import re
from collections import Counter
from typing import Any

import pytest

from episode_operator.api.resources import quantity
from episode_operator.sandbox.pod import SandboxSettings, build_pod, verifier_container
from tests.unit.builders import episode, spec

Object = dict[str, Any]

SETTINGS = SandboxSettings(runner_image="registry.test/runner:1")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
TASK: Object = {
    "image": "registry.test/task:1",
    "instruction": "x",
    "solution": {"script": "true"},
}
SEPARATE: Object = {"testScript": {"script": "true"}, "isolation": "SeparateContainer"}
SIDECARS: list[Object] = [
    {"name": "db", "image": "registry.test/db:1", "ready": {"tcpPort": 5432}},
    {
        "name": "x" * 40,
        "image": "registry.test/web:1",
        "command": ["/web"],
        "args": ["--port=80"],
        "env": [{"name": "A", "value": "b"}],
        "workingDir": "/srv",
        "user": 1000,
        "ready": {"httpGet": {"port": 80}, "timeoutSeconds": 7},
    },
]
STEPS: list[Object] = [
    {"name": "one", "instruction": "x", "verifier": SEPARATE, "solution": {"script": "true"}},
    {"name": "two", "instruction": "x", "verifier": {"testScript": {"script": "true"}}},
    {"name": "three", "instruction": "x", "verifier": {**SEPARATE, "image": "registry.test/v:1"}},
]
SHAPES: dict[str, Object] = {
    "plain": {},
    "non-root": {"task": {**TASK, "user": 1000}},
    "separate": {"verifier": SEPARATE},
    "sidecars": {"sandbox": {"sidecars": SIDECARS}},
    "steps": {"steps": STEPS, "verifier": None, "sandbox": {"sidecars": SIDECARS}},
}


def pod_spec(**overrides: Any) -> Object:
    made: Object = build_pod(episode(**overrides), 0, SETTINGS)["spec"]
    return made


def containers(made: Object) -> list[Object]:
    return [*made.get("initContainers", []), *made["containers"]]


def named(made: Object, name: str) -> Object:
    (found,) = (c for c in containers(made) if c["name"] == name)
    return found


@pytest.fixture(params=[*SHAPES.values()], ids=[*SHAPES])
def made(request: pytest.FixtureRequest) -> Object:
    return pod_spec(**request.param)


def test_every_container_is_hardened_and_limited(made: Object) -> None:
    for container in containers(made):
        context = container["securityContext"]
        assert context["capabilities"]["drop"] == ["ALL"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["privileged"] is False
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        limits = container["resources"]["limits"]
        assert limits.keys() == {"cpu", "memory", "ephemeral-storage"}
        for name, request in container["resources"]["requests"].items():
            assert quantity(request) <= quantity(limits[name])


def test_containers_share_the_runner_to_be_read_and_nothing_else(made: Object) -> None:
    mounts = [(c, mount) for c in containers(made) for mount in c["volumeMounts"]]
    uses = Counter(mount["name"] for _, mount in mounts)
    assert [name for name, count in uses.items() if count > 1] in ([], ["runner"])
    writers = [c["name"] for c, m in mounts if m["name"] == "runner" and not m.get("readOnly")]
    assert writers == ["runner"]
    assert not made.get("shareProcessNamespace")


def test_every_volume_is_bounded_and_used(made: Object) -> None:
    used = {mount["name"] for c in containers(made) for mount in c["volumeMounts"]}
    assert {volume["name"] for volume in made["volumes"]} == used
    for volume in made["volumes"]:
        assert volume.keys() == {"name", "emptyDir"}
        assert quantity(volume["emptyDir"]["sizeLimit"]) > 0


def test_each_container_of_the_task_has_shared_memory_of_its_own(made: Object) -> None:
    memory = {v["name"] for v in made["volumes"] if v["emptyDir"].get("medium") == "Memory"}
    for container in containers(made):
        if container["name"] == "runner":
            continue
        (mount,) = (m for m in container["volumeMounts"] if m["mountPath"] == "/dev/shm")
        assert mount["name"] in memory


def test_names_are_unique_labels(made: Object) -> None:
    for things in (containers(made), made["volumes"]):
        names = [thing["name"] for thing in things]
        assert len(set(names)) == len(names)
        assert all(DNS_LABEL.fullmatch(name) for name in names), names


def test_pod_security_restricted_takes_a_pod_without_root() -> None:
    made = pod_spec(
        task={**TASK, "user": 1000},
        verifier=SEPARATE,
        sandbox={"sidecars": [{**sidecar, "user": 70} for sidecar in SIDECARS]},
    )
    for container in containers(made):
        context = container["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] > 0
        assert context["capabilities"] == {"drop": ["ALL"]}


def test_a_root_task_gets_what_package_managers_need_and_no_more() -> None:
    capabilities = named(pod_spec(), "sandbox")["securityContext"]["capabilities"]
    assert capabilities["drop"] == ["ALL"]
    assert {"SYS_ADMIN", "NET_RAW", "SYS_PTRACE", "MKNOD"}.isdisjoint(capabilities["add"])
    assert "CHOWN" in capabilities["add"]


def test_the_same_attempt_has_the_same_name_and_another_one_another() -> None:
    names = [build_pod(episode(), n, SETTINGS)["metadata"]["name"] for n in (0, 0, 1)]
    assert names == ["hello-a0", "hello-a0", "hello-a1"]


def test_user_labels_never_replace_the_operators() -> None:
    labels = build_pod(
        episode(sandbox={"labels": {"kueue.x-k8s.io/queue-name": "gpu"}}), 3, SETTINGS
    )["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "gpu"
    assert labels["episodes.dev/attempt"] == "3"


def test_only_tests_that_run_apart_have_a_container() -> None:
    made = pod_spec(steps=STEPS, verifier=None)
    names = [c["name"] for c in made["containers"]]
    assert names == ["runner", "sandbox", "verifier-0", "verifier-2"]
    assert named(made, verifier_container(0))["image"] == "registry.test/task:1"
    assert named(made, verifier_container(2))["image"] == "registry.test/v:1"


def test_a_verifier_container_is_like_the_tasks_without_its_solution() -> None:
    made = pod_spec(task={**TASK, "user": 1000, "workdir": "/w"}, verifier=SEPARATE)
    task, verifier = named(made, "sandbox"), named(made, "verifier-0")
    for field in ("command", "env", "workingDir", "resources", "securityContext"):
        assert verifier[field] == task[field]
    paths = [{m["mountPath"] for m in c["volumeMounts"]} for c in (task, verifier)]
    assert paths[0] - paths[1] == {"/solution"}


def test_only_the_oracle_has_a_folder_for_the_solution() -> None:
    without = {k: v for k, v in TASK.items() if k != "solution"}
    mounts = named(pod_spec(task=without), "sandbox")["volumeMounts"]
    assert "/solution" not in {mount["mountPath"] for mount in mounts}


def test_the_runner_is_there_before_what_runs_it_starts(made: Object) -> None:
    """The kubelet starts containers in order, each after the hook of the one before has ended."""
    first, *served = made["containers"]
    assert first["name"] == "runner"
    assert first["lifecycle"]["postStart"]["exec"]["command"] == [
        "/runner",
        "install",
        served[0]["command"][0],
    ]
    assert {c["command"][0] for c in served} == {"/.episode/runner"}


def test_people_find_the_tasks_container_first() -> None:
    annotations = build_pod(episode(), 0, SETTINGS)["metadata"]["annotations"]
    assert annotations == {"kubectl.kubernetes.io/default-container": "sandbox"}


def test_sidecars_are_ready_before_the_task() -> None:
    sidecars = pod_spec(sandbox={"sidecars": SIDECARS})["initContainers"]
    assert [s["name"] for s in sidecars] == ["sidecar-db", "sidecar-" + "x" * 40]
    assert all(s["restartPolicy"] == "Always" for s in sidecars)
    probes = [s["startupProbe"] for s in sidecars]
    assert probes[0]["tcpSocket"] == {"port": 5432}
    assert probes[1]["httpGet"] == {"port": 80, "path": "/"}
    assert [p["failureThreshold"] * p["periodSeconds"] for p in probes] == [120, 7]


def test_a_sidecar_is_its_image_where_nothing_else_is_said() -> None:
    plain, full = pod_spec(sandbox={"sidecars": SIDECARS})["initContainers"]
    assert {"command", "args", "env", "workingDir"}.isdisjoint(plain)
    assert (full["command"], full["args"], full["workingDir"]) == (["/web"], ["--port=80"], "/srv")
    assert full["env"] == [{"name": "A", "value": "b"}]
    assert full["securityContext"]["runAsUser"] == 1000


def test_a_sidecar_asked_by_a_command() -> None:
    sidecar = {"name": "db", "image": "i", "ready": {"exec": ["pg_isready"]}}
    made = pod_spec(sandbox={"sidecars": [sidecar]})
    assert named(made, "sidecar-db")["startupProbe"]["exec"] == {"command": ["pg_isready"]}


@pytest.mark.parametrize(
    ("network", "policy", "options"),
    [
        ({}, "None", None),
        ({"mode": "Allowlist", "allow": [{"cidr": "10.0.0.0/8"}]}, "None", None),
        ({"mode": "Allowlist", "allow": [{"host": "a.test"}]}, None, [("ndots", "1")]),
        ({"mode": "Public"}, None, None),
    ],
)
def test_there_is_a_resolver_only_where_names_may_be_asked(
    network: Object, policy: str | None, options: list[tuple[str, str]] | None
) -> None:
    made = pod_spec(sandbox={"network": network})
    assert made.get("dnsPolicy") == policy
    found = made.get("dnsConfig", {}).get("options")
    assert (found and [(o["name"], o["value"]) for o in found]) == options


def test_user_namespace() -> None:
    assert "hostUsers" not in pod_spec()
    assert pod_spec(sandbox={"userNamespace": "Private"})["hostUsers"] is False


NOT_READY, UNREACHABLE = (f"node.kubernetes.io/{taint}" for taint in ("not-ready", "unreachable"))


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], [NOT_READY, UNREACHABLE]),
        ([{"key": "gpu", "operator": "Exists"}], [NOT_READY, UNREACHABLE]),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"}], [UNREACHABLE]),
        ([{"key": NOT_READY, "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
        ([{"operator": "Exists"}], []),
    ],
)
def test_a_lost_node_is_noticed_soon_unless_the_episode_says_otherwise(
    given: list[Object], added: list[str]
) -> None:
    made = pod_spec(sandbox={"tolerations": given})["tolerations"]
    assert made[: len(given)] == [{"operator": "Equal", **toleration} for toleration in given]
    assert made[len(given) :] == [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
        for key in added
    ]


def test_the_pod_outlives_every_step_of_its_episode() -> None:
    made = spec()
    assert made.verifier is not None
    limit = pod_spec()["activeDeadlineSeconds"]
    assert limit > made.agent.timeout_seconds + made.verifier.timeout_seconds


def test_requests_never_pass_the_limits() -> None:
    small = {"resources": {"cpu": "20m", "memory": "32Mi", "memoryRequest": "0.5Gi"}}
    assert named(pod_spec(sandbox=small), "sandbox")["resources"]["requests"] == {
        "cpu": "20m",
        "memory": "32Mi",
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("500m", 0.5), ("1.5", 1.5), ("2k", 2000), ("1Ki", 1024), ("1.5Gi", 1.5 * 2**30)],
)
def test_quantity(text: str, value: float) -> None:
    assert float(quantity(text)) == value
