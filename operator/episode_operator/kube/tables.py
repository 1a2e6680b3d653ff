"""Objects as the API server's tables have them: metadata and printed columns, no spec, no blobs.

A list of whole EpisodeResults carries all their inline tokens; a table of them does not.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from episode_operator.kube.client import KubernetesClient, Resource

_ACCEPT = "application/json;as=Table;g=meta.k8s.io;v=v1"
_PAGE = 500


@dataclass(frozen=True, slots=True)
class Line:
    """One object.

    Attributes:
        metadata: its metadata.
        cells: its printed columns by name, those of `-o wide` too; None where there is no value.
    """

    metadata: Mapping[str, Any]
    cells: Mapping[str, Any]


async def read(
    client: KubernetesClient, resource: Resource, namespace: str | None, *, selector: str = ""
) -> AsyncIterator[Line]:
    """All objects of a namespace, None meaning all, that the label selector takes.

    Raises:
        ApiError: the API server does not answer, or refuses.
    """
    parameters = {"limit": str(_PAGE)} | ({"labelSelector": selector} if selector else {})
    while True:
        answer = await client.request(
            "GET", resource.path(namespace), params=parameters, accept=_ACCEPT
        )
        names = [column["name"] for column in answer["columnDefinitions"]]
        for row in answer["rows"] or []:
            cells = dict(zip(names, row["cells"], strict=True))
            yield Line(row["object"]["metadata"], cells)
        token = answer["metadata"].get("continue")
        if not token:
            return
        parameters["continue"] = token
