"""Values that the chart is tested with, and what it makes of them."""

from functools import cache
from typing import Any

from tests.testbed import chart

Values = dict[str, Any]
Manifest = dict[str, Any]

RELEASE, NAMESPACE = "x", "default"

TRAINER = [{"podSelector": {"matchLabels": {"app": "trainer"}}}]
BRIDGE: Values = {
    "enabled": True,
    "config": {"run": "maths", "tasks": {"builtin": "coding"}, "sink": {"kind": "atropos"}},
}
"""A bridge whose sink is the release's own Atropos server."""

ELSEWHERE: Values = {
    **BRIDGE,
    "config": {**BRIDGE["config"], "sink": {"kind": "atropos", "url": "http://atropos:8000"}},
}
ATROPOS: Values = {"enabled": True, "image": "atropos:0.4.0"}
QUEUE = {
    "type": "Pods",
    "pods": {
        "metric": {"name": "vllm_num_requests_waiting"},
        "target": {"type": "AverageValue", "averageValue": "8"},
    },
}
EVERYTHING: Values = {
    "bridge": BRIDGE,
    "atropos": ATROPOS,
    "vllm": {"enabled": True},
    "monitoring": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "rules": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboard": {"enabled": True},
    },
}

CASES: dict[str, Values] = {
    "defaults": {},
    "model server": {"vllm": {"enabled": True}},
    "GPUs": {"vllm": {"enabled": True, "gpus": 4, "maxModelLen": 32768}},
    "model server without GPU": {"vllm": {"enabled": True, "gpus": 0}},
    "replicas": {
        "vllm": {
            "enabled": True,
            "replicas": 3,
            "sessionAffinity": "ClientIP",
            "cache": {"existingClaim": "models"},
        }
    },
    "autoscaled": {
        "vllm": {
            "enabled": True,
            "autoscaling": {"enabled": True, "maxReplicas": 8, "metrics": [QUEUE]},
            "cache": {"hostPath": "/var/models"},
        }
    },
    "a token of the hub": {
        "vllm": {
            "enabled": True,
            "env": [
                {
                    "name": "HF_TOKEN",
                    "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}},
                },
                {"name": "HF_HOME", "value": "/models"},
            ],
            "envFrom": [{"secretRef": {"name": "hub"}}],
            "networkPolicy": {"from": TRAINER},
        }
    },
    "namespaces": {"operator": {"watchNamespaces": ["team-a", "team-b"], "secretReferences": True}},
    "ignored namespaces": {"operator": {"ignoreNamespaces": ["staging", "staging-*"]}},
    "traced": {
        "operator": {
            "tracing": {
                "endpoint": "http://collector.observability:4318",
                "env": [
                    {
                        "name": "OTEL_EXPORTER_OTLP_HEADERS",
                        "valueFrom": {"secretKeyRef": {"name": "collector", "key": "headers"}},
                    }
                ],
            }
        }
    },
    "operator's replicas": {"operator": {"replicas": 2}},
    "no CRDs": {"crds": {"install": False}},
    "blocked": {"operator": {"sandbox": {"blockedCIDRs": ["203.0.113.0/24"]}}},
    "metrics for nobody": {"operator": {"networkPolicy": {"from": None}}},
    "S3": {"objectStore": {"url": "s3://results/episodes", "secretName": "results"}},
    "folder": {
        "objectStore": {
            "url": "file:///results",
            "volume": {"persistentVolumeClaim": {"claimName": "results"}},
        }
    },
    "bridge": {"bridge": ELSEWHERE},
    "only a bridge": {
        "operator": {"enabled": False},
        "crds": {"install": False},
        "bridge": {**ELSEWHERE, "mode": "process"},
    },
    "evaluation": {"bridge": {**ELSEWHERE, "mode": "evaluate", "extraArgs": ["--label=first"]}},
    "bridge without metrics": {
        "bridge": {**ELSEWHERE, "config": {**ELSEWHERE["config"], "metrics_port": None}}
    },
    "bridge with volumes": {
        "bridge": {
            **ELSEWHERE,
            "envFrom": [{"secretRef": {"name": "wandb"}}],
            "extraVolumes": [{"name": "tasks", "persistentVolumeClaim": {"claimName": "tasks"}}],
            "extraVolumeMounts": [{"name": "tasks", "mountPath": "/tasks"}],
            "networkPolicy": {
                "apiServer": {"cidrs": ["192.0.2.1/32"]},
                "from": None,
                "to": None,
            },
        }
    },
    "Atropos": {
        "bridge": BRIDGE,
        "atropos": {**ATROPOS, "networkPolicy": {"from": TRAINER}},
        "vllm": {"enabled": True},
    },
    "everything": EVERYTHING,
}

MONITORED = frozenset(name for name, values in CASES.items() if "monitoring" in values)
"""Cases that an API server takes only with the definitions of the Prometheus operator."""


@cache
def manifests(case: str) -> list[Manifest]:
    """The objects of a case, and those of its test."""
    return chart.manifests(RELEASE, NAMESPACE, CASES[case])


def of_kind(case: str, *kinds: str) -> list[Manifest]:
    """The objects of these kinds."""
    return [one for one in manifests(case) if one["kind"] in kinds]


def named(case: str, kind: str, name: str) -> Manifest:
    """The object of this kind and name."""
    (found,) = (one for one in of_kind(case, kind) if one["metadata"]["name"] == name)
    return found


def pods(case: str) -> dict[str, Manifest]:
    """Component -> its pod, with metadata and spec."""
    templates = [one["spec"]["template"] for one in of_kind(case, "Deployment", "Job")]
    return {
        pod["metadata"]["labels"]["app.kubernetes.io/component"]: pod
        for pod in [*templates, *of_kind(case, "Pod")]
    }


def matching(selector: dict[str, str], case: str) -> list[str]:
    """The components whose pods have all these labels."""
    return [
        component
        for component, pod in pods(case).items()
        if selector.items() <= pod["metadata"]["labels"].items()
    ]
