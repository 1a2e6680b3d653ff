"""A wrong spec is refused at `kubectl apply` with a message that names the field."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster import kubectl

Spec = dict[str, Any]

GOOD: dict[str, Any] = {
    "apiVersion": "episodes.dev/v1alpha1",
    "kind": "Episode",
    "metadata": {"name": "mistaken"},
    "spec": {
        "task": {"image": "registry.test/task:1", "instruction": "do it"},
        "agent": {"kind": "Scripted", "script": [{"tool": "terminal"}]},
        "verifier": {"testScript": {"script": "true"}},
    },
}


def put(path: str, value: Any) -> Callable[[Spec], None]:
    """Set a field of the spec."""

    def change(spec: Spec) -> None:
        *parents, last = path.split(".")
        for key in parents:
            spec = spec.setdefault(key, {})
        spec[last] = value

    return change


def drop(path: str) -> Callable[[Spec], None]:
    """Remove a field of the spec."""

    def change(spec: Spec) -> None:
        *parents, last = path.split(".")
        for key in parents:
            spec = spec[key]
        del spec[last]

    return change


STEP = {"name": "a", "instruction": "x", "verifier": {"testScript": {"script": "true"}}}


def in_steps(*steps: Spec) -> Callable[[Spec], None]:
    """Make the spec a task in steps."""

    def change(spec: Spec) -> None:
        del spec["task"]["instruction"], spec["verifier"], spec["agent"]["script"]
        spec["steps"] = [{"script": [{"tool": "terminal"}], **step} for step in steps]

    return change


def both(*changes: Callable[[Spec], None]) -> Callable[[Spec], None]:
    """All of the changes."""

    def change(spec: Spec) -> None:
        for one in changes:
            one(spec)

    return change


MISTAKES = {
    "no task": (drop("task"), "spec.task: Required value"),
    "no image": (drop("task.image"), "spec.task.image: Required value"),
    "image with a space": (put("task.image", "a b"), "spec.task.image"),
    "no instruction": (
        drop("task.instruction"),
        "exactly one of instruction, instructionFrom must be set",
    ),
    "two instructions": (
        put("task.instructionFrom", {"configMapKeyRef": {"name": "a", "key": "b"}}),
        "at most one of instruction, instructionFrom may be set",
    ),
    "a source with two references": (
        put(
            "task.files",
            [
                {
                    "path": "/a",
                    "contentFrom": {
                        "configMapKeyRef": {"name": "a", "key": "b"},
                        "secretKeyRef": {"name": "a", "key": "b"},
                    },
                }
            ],
        ),
        "exactly one of configMapKeyRef, secretKeyRef must be set",
    ),
    "relative workdir": (put("task.workdir", "src"), "spec.task.workdir"),
    "negative user": (put("task.user", -1), "spec.task.user"),
    "bad variable name": (put("task.env", [{"name": "1A", "value": ""}]), "spec.task.env[0].name"),
    "no contract": (
        drop("verifier.testScript"),
        "exactly one of pytest, testScript, testCode must be set",
    ),
    "two contracts": (
        put("verifier.testCode", {"code": "pass"}),
        "exactly one of pytest, testScript, testCode must be set",
    ),
    "test file outside /tests": (
        put("verifier.testScript.files", [{"path": "/etc/passwd", "content": ""}]),
        "every path must lie under /tests/",
    ),
    "zero timeout": (put("verifier.timeoutSeconds", 0), "spec.verifier.timeoutSeconds"),
    "timeouts beyond the deadline": (
        put("activeDeadlineSeconds", 100),
        "activeDeadlineSeconds must be at least agent.timeoutSeconds",
    ),
    "tool timeout beyond the agent's": (
        put("agent.toolTimeoutSeconds", 1800),
        "toolTimeoutSeconds must be less than timeoutSeconds",
    ),
    "a limit on the weights' age without a number": (
        put("model", {"endpoint": "http://x", "name": "x", "staleness": {}}),
        "versions or seconds must be set",
    ),
    "unknown agent": (put("agent.kind", "Robot"), "spec.agent.kind: Unsupported value"),
    "script missing": (drop("agent.script"), "script must list at least one tool call"),
    "model missing": (
        put("agent", {"kind": "Model"}),
        "model must be set when agent.kind is Model",
    ),
    "solution missing": (
        put("agent", {"kind": "Oracle"}),
        "task.solution, or that of each step, must be set when agent.kind is Oracle",
    ),
    "solution within reach of an agent": (
        put("task.solution", {"script": "true"}),
        "task.solution is only for agent.kind Oracle",
    ),
    "unknown toolset": (put("agent.toolsets", ["browser"]), "spec.agent.toolsets[0]"),
    "too many turns": (put("agent.maxTurns", 100_000), "spec.agent.maxTurns"),
    "endpoint without scheme": (
        put("model", {"endpoint": "vllm:8000", "name": "m"}),
        "spec.model.endpoint",
    ),
    "negative temperature": (
        put("model", {"endpoint": "http://v", "name": "m", "sampling": {"temperature": -1}}),
        "spec.model.sampling.temperature",
    ),
    "temperature that vLLM refuses": (
        put("model", {"endpoint": "http://v", "name": "m", "sampling": {"temperature": 2.1}}),
        "spec.model.sampling.temperature",
    ),
    "top-p of zero": (
        put("model", {"endpoint": "http://v", "name": "m", "sampling": {"topP": 0}}),
        "spec.model.sampling.topP",
    ),
    "empty allowlist": (
        put("sandbox", {"network": {"mode": "Allowlist"}}),
        "allow must list at least one rule when mode is Allowlist",
    ),
    "no CIDR": (
        put("sandbox", {"network": {"mode": "Allowlist", "allow": [{"cidr": "10.0.0.0/99"}]}}),
        "must be a CIDR",
    ),
    "label of the operator": (
        put("sandbox", {"labels": {"episodes.dev/episode-uid": "x"}}),
        "labels under episodes.dev/ belong to the operator",
    ),
    "no quantity": (
        put("sandbox", {"resources": {"memory": "lots"}}),
        "spec.sandbox.resources.memory",
    ),
    "unknown field": (put("agent.maxTurn", 3), 'unknown field "spec.agent.maxTurn"'),
    "no verifier": (drop("verifier"), "verifier must be set when there are no steps"),
    "verifier image in the agent's container": (
        put("verifier.image", "x"),
        "image and carry are only for isolation SeparateContainer",
    ),
    "processes kept in another container": (
        both(
            put("verifier.isolation", "SeparateContainer"), put("verifier.agentProcesses", "Keep")
        ),
        "agentProcesses Keep is only for isolation SameContainer",
    ),
    "archive outside /tests": (
        put(
            "verifier.testScript.archives",
            [{"path": "/etc", "sha256": "0" * 64, "parts": ["part"]}],
        ),
        "every path must lie under /tests/",
    ),
    "an agent's user without root": (
        both(put("task.user", 1000), put("agent.user", "nobody")),
        "agent.user needs a container that runs as root",
    ),
    "a verifier's user without root": (
        both(put("task.user", 1000), put("verifier.user", "nobody")),
        "verifier.user needs a container that runs as root",
    ),
    "a user that is none": (put("agent.user", "a b"), "spec.agent.user"),
    "steps and a verifier": (
        both(in_steps(STEP), put("verifier", {"testScript": {"script": "true"}})),
        "verifier must be set when there are no steps; with steps each has its own",
    ),
    "steps and an instruction": (
        both(in_steps(STEP), put("task.instruction", "x")),
        "with steps each has its own",
    ),
    "two steps of one name": (in_steps(STEP, STEP), 'spec.steps[1]: Duplicate value: {"name":"a"}'),
    "a step without a script": (
        in_steps({**STEP, "script": []}),
        "script must list at least one tool call when kind is Scripted, for each step",
    ),
    "a step with a solution": (
        in_steps({**STEP, "solution": {"script": "true"}}),
        "task.solution is only for agent.kind Oracle",
    ),
    "steps beyond the deadline": (
        both(in_steps({**STEP, "agentTimeoutSeconds": 100}), put("activeDeadlineSeconds", 600)),
        "activeDeadlineSeconds must be at least the time limits of all steps together",
    ),
    "a rule with two destinations": (
        put(
            "sandbox",
            {"network": {"mode": "Allowlist", "allow": [{"cidr": "10.0.0.0/8", "host": "a.b"}]}},
        ),
        "exactly one of cidr, host, pods must be set",
    ),
    "too many retries": (put("infraRetryLimit", 11), "spec.infraRetryLimit"),
}


async def test_the_spec_the_mistakes_start_from_is_good() -> None:
    ran = await kubectl.apply(GOOD, namespace="default", dry_run=True)
    assert ran.code == 0, ran.stderr


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_mistake_is_refused(mistake: str) -> None:
    change, message = MISTAKES[mistake]
    wrong = copy.deepcopy(GOOD)
    change(wrong["spec"])
    ran = await kubectl.apply(wrong, namespace="default", dry_run=True)
    assert ran.code != 0, "it was accepted"
    assert message in ran.stderr
