"""Leases, as whoever holds one writes them."""

from datetime import UTC, datetime

from episode_operator.kube.client import Object


def lease(metadata: Object, *, holder: str, duration_seconds: int) -> Object:
    """A Lease that is renewed now; the holder is empty where it is given back."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration_seconds,
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }
