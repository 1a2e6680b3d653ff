"""Installs releases of the chart, and what it needs for a model server without a GPU."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.testbed import gobuild, vllm
from tests.testbed.paths import CACHE
from tests.testbed.shell import run

CHART = Path(__file__).parents[2] / "charts" / "episode-operator"
WEIGHTS = "/models/policy"
UPDATES = "/models/updates"
"""Where a model server finds its weights, and others that are written beside them later."""

KUBE_VERSION = "1.34.0"
"""The version that manifests are made for where there is no cluster to ask."""

_ROLLOUT_SECONDS = 600


def helm(
    *arguments: str,
    values: Mapping[str, Any],
    env: Mapping[str, str] | None = None,
    say: Callable[[str], None] = print,
) -> str:
    """What helm prints; the values are added to its arguments, the chart's folder is one of them.

    Raises:
        TestbedError: helm refuses it; the text has what it said.
    """
    program = str(gobuild.ensure(gobuild.HELM, say) / "helm")
    return run([program, *arguments, "--values", "-"], stdin=json.dumps(values), env=env)


def manifests(
    release: str, namespace: str, values: Mapping[str, Any], *, hooks: bool = True
) -> list[dict[str, Any]]:
    """The objects of a release, without a cluster; with `hooks` also those of `helm test`.

    Raises:
        TestbedError: helm refuses the values; the text has what it said.
    """
    arguments = ["template", release, str(CHART), "--namespace", namespace]
    arguments += ["--kube-version", KUBE_VERSION, *([] if hooks else ["--no-hooks"])]
    text = helm(*arguments, values=values)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [loaded for loaded in yaml.load_all(text, loader) if loaded is not None]


def install(
    release: str,
    namespace: str,
    values: Mapping[str, Any],
    *,
    deployments: Sequence[str],
    env: Mapping[str, str],
    say: Callable[[str], None],
    folder: Path = CHART,
) -> None:
    """Install or upgrade a release, and wait until its deployments run.

    Args:
        folder: of the chart.

    Raises:
        TestbedError: helm refuses it, or a deployment does not come up.
    """
    say("helm upgrade")
    helm(
        *("upgrade", "--install", release, str(folder), "--namespace", namespace),
        "--create-namespace",
        values=values,
        env=env,
        say=say,
    )
    for deployment in deployments:
        say(f"waiting for deployment {deployment}")
        run(
            [
                *("kubectl", "rollout", "status", f"deployment/{deployment}", "-n", namespace),
                f"--timeout={_ROLLOUT_SECONDS}s",
            ],
            env=env,
            hint=f"kubectl -n {namespace} describe pods; kubectl -n {namespace} logs "
            f"deployment/{deployment}",
        )


def model_server(image: str, *, model: Path, updates: Path) -> dict[str, Any]:
    """The chart's values of a server on the CPU: vLLM and its model come from the node's disk.

    `model` is the folder of its first weights, `updates` of others; both are on this machine.
    """
    volumes = (
        ("vllm", CACHE / "vllm" / "venv", "Directory", "/opt/vllm"),
        ("model", model, "Directory", WEIGHTS),
        ("updates", updates, "DirectoryOrCreate", UPDATES),
    )
    return {
        "enabled": True,
        "image": image,
        "model": WEIGHTS,
        "servedModelName": vllm.SERVED_MODEL,
        "gpus": 0,
        "extraArgs": list(vllm.CPU_ARGUMENTS),
        "env": [{"name": k, "value": v} for k, v in vllm.SERVER_ENVIRONMENT.items()],
        "resources": {
            "requests": {"cpu": "500m", "memory": "3Gi"},
            "limits": {"memory": "8Gi"},
        },
        "extraVolumes": [
            {"name": name, "hostPath": {"path": str(path), "type": kind}}
            for name, path, kind, _ in volumes
        ],
        "extraVolumeMounts": [
            {"name": name, "mountPath": mounted, "readOnly": True}
            for name, _, _, mounted in volumes
        ],
    }
