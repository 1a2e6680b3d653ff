"""A finished, distilled Episode as the API server has it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from episode_operator.api.agent import AgentKind, Sampling
from episode_operator.api.distillation import DistillationState, TurnOutcome
from episode_operator.api.labels import EPISODE_NAME, label_value, unique_name
from episode_operator.api.reasons import Verdict
from episode_operator.api.result import (
    Counts,
    DistillationStatus,
    EpisodeReference,
    EpisodeResult,
    EpisodeResultSpec,
    ModelReference,
    WeightSpan,
)
from episode_operator.kube.client import KubernetesClient
from episode_operator.kube.connection import KubernetesConnection
from episode_operator.results import blobs, distillation, turns, writer
from episode_operator.results.distillation import Distillation
from episode_operator.results.payload import TokenRow
from episode_operator.results.turns import TurnRecord
from tests.fakes.kubernetes_server import KubernetesServer
from tests.unit import builders

NAMESPACE = "default"
CONVERSATION = [
    {"role": "user", "content": "count"},
    {"role": "assistant", "content": "one two"},
    {"role": "user", "content": "go on"},
    {"role": "assistant", "content": "three"},
]
TURNS = [
    TurnRecord(turn=0, outcome=TurnOutcome.SCORED, hint="count faster", start=2, end=4),
    TurnRecord(
        turn=1,
        outcome=TurnOutcome.NO_NEXT_STATE,
        message="no text follows this turn",
        start=5,
        end=6,
    ),
]


def row() -> TokenRow:
    """Two turns: 0 and 1 inserted, 2 and 3 sampled; 4 inserted, 5 sampled."""
    return TokenRow(
        tokens=np.array([10, 11, 12, 13, 14, 15], dtype=np.int32),
        mask=np.array([0, 0, 1, 1, 0, 1], dtype=np.bool_),
        logprobs=np.array([0, 0, -0.5, -2, 0, -0.25], dtype=np.float32),
        turn=np.array([0, 0, 0, 0, 1, 1], dtype=np.int16),
    )


def taught() -> Distillation:
    """The teacher likes 12 less than the student does, and 13 more."""
    return Distillation(
        positions=np.array([2, 3], dtype=np.int32),
        token_ids=np.array([[20, 12], [13, 21]], dtype=np.int32),
        logprobs=np.array([[-0.25, -1.5], [-0.5, -3]], dtype=np.float32),
        sampled_logprobs=np.array([-1.5, -0.5], dtype=np.float32),
    )


def result_spec(**changes: Any) -> EpisodeResultSpec:
    """What the Episode gave, without its blobs."""
    at = datetime(2026, 11, 30, 12, tzinfo=UTC)
    value: dict[str, Any] = {
        "episode": EpisodeReference(name="hello", uid=builders.UID),
        "verdict": Verdict.PASSED,
        "reason": "TestsPassed",
        "reward": 1.0,
        "reward_components": {"correctness": 1.0},
        "harness": "testScript",
        "agent_kind": AgentKind.MODEL,
        "agent_end": "NaturalFinish",
        "image": "registry.test/task:1",
        "model": ModelReference(name="policy", logprobs_mode="processed", sampling=Sampling()),
        "counts": Counts(turns=2, tokens=6, sampled_tokens=3),
        "weight_versions": [
            WeightSpan(version="step-1", start=2, end=4),
            WeightSpan(version="step-20", start=5, end=6),
        ],
        "started_at": at,
        "finished_at": at,
        **changes,
    }
    return EpisodeResultSpec(**value)


@dataclass
class Cluster:
    """An API server with objects, and a client of it."""

    server: KubernetesServer
    client: KubernetesClient

    def path(self, plural: str, name: str) -> str:
        return f"/apis/episodes.dev/v1alpha1/namespaces/{NAMESPACE}/{plural}/{name}"

    def add_episode(self, **spec: Any) -> None:
        """The Episode `hello`; its phase is Running."""
        body = builders.episode(**spec).model_dump(mode="json", by_alias=True, exclude_none=True)
        body["status"] = {"phase": "Running"}
        self.server.objects[self.path("episodes", "hello")] = body

    async def add_result(
        self,
        *,
        name: str = unique_name("hello", builders.UID),
        tokens: TokenRow | None = None,
        values: Distillation | None = None,
        records: Sequence[TurnRecord] = tuple(TURNS),
        positions: int = 2,
        **changes: Any,
    ) -> EpisodeResult:
        """Its result, as the writer writes it; with the distillation of the row."""
        written = await writer.write(
            self.client,
            name=name,
            namespace=NAMESPACE,
            labels={EPISODE_NAME: label_value("hello")},
            spec=result_spec(**changes),
            row=tokens or row(),
            conversation=CONVERSATION,
            artifacts=None,
            store=None,
        )
        self.distil(name, tokens or row(), values or taught(), records, positions=positions)
        return written

    def distil(
        self,
        name: str,
        tokens: TokenRow,
        values: Distillation,
        records: Sequence[TurnRecord],
        *,
        positions: int,
        seconds: float = 0,
        completed_at: datetime = datetime(2026, 11, 30, 12, tzinfo=UTC),
    ) -> None:
        """Add what a distillation gave to a result."""
        data = distillation.encode(values, tokens)
        status = DistillationStatus(
            state=DistillationState.COMPLETED,
            positions=positions,
            data=blobs.inline(data, encoding=distillation.ENCODING),
            turns=blobs.inline(turns.encode(records), encoding=turns.ENCODING),
            seconds=seconds,
            completed_at=completed_at,
        )
        stored = self.server.objects[self.path("episoderesults", name)]
        stored["status"] = {"distillation": status.to_api()}

    def kubeconfig(self, folder: Path) -> str:
        """A file that leads to it."""
        file = folder / "kubeconfig"
        value = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.server.url}}],
            "users": [{"name": "nobody", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "nobody"}}],
            "current-context": "test",
        }
        file.write_text(yaml.safe_dump(value))
        return str(file)


def connection(server: KubernetesServer) -> KubernetesConnection:
    """As whoever."""

    async def headers() -> dict[str, str]:
        return {}

    return KubernetesConnection(server.url, None, headers)


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """An empty one."""
    async with (
        KubernetesServer.running() as server,
        KubernetesClient(connection(server)) as client,
    ):
        yield Cluster(server, client)
