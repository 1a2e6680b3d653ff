"""An operator that runs nothing: it ends Episodes as a script says."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from episode_operator.api.episode import Episode
from episode_operator.api.labels import (
    EPISODE_NAME,
    EPISODE_UID,
    FIELD_MANAGER,
    GROUP_NAME,
    RUN,
    label_value,
    unique_name,
)
from episode_operator.api.reasons import Verdict
from episode_operator.api.result import Counts, EpisodeReference, WeightSpan
from episode_operator.kube.client import EPISODES, KubernetesClient
from episode_operator.results import writer
from episode_operator.results.objects import ObjectStore
from episode_operator.results.payload import TokenRow
from tests.unit import records

NAMESPACE = "default"
NO_VERDICT = "NodeLost"


def row_of(episode: str, tokens: int = 6) -> TokenRow:
    """The row of an Episode: no other Episode has these tokens."""
    random = np.random.default_rng([*episode.encode()])
    mask = np.arange(tokens) >= tokens // 2
    return TokenRow(
        tokens=random.integers(0, 150_000, tokens, dtype=np.int32),
        mask=mask,
        logprobs=np.where(mask, -0.5, 0).astype(np.float32),
        turn=np.zeros(tokens, dtype=np.int16),
    )


@dataclass
class Operator:
    """Writes results as the real one does.

    Attributes:
        reward: the reward of an Episode by its name; None for no verdict.
        at_once: whether an Episode is finished before its creation is answered.
        store: where large blobs go.
        tokens: length of every row.
    """

    client: KubernetesClient
    reward: Callable[[str], float | None]
    at_once: bool = True
    store: ObjectStore | None = None
    tokens: int = 6

    async def finish(self, name: str, **changes: Any) -> None:
        """Write the result of an Episode, its spec changed, and say that it is done."""
        await self.write_result(name, **changes)
        condition = {
            "type": "Finished",
            "status": "True",
            "reason": "Done",
            "message": "",
            "lastTransitionTime": "2026-11-30T12:00:00Z",
        }
        body = {
            "apiVersion": "episodes.dev/v1alpha1",
            "kind": "Episode",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "status": {"phase": "Finished", "conditions": [condition]},
        }
        await self.client.apply_status(EPISODES, body, manager=FIELD_MANAGER)

    async def write_result(self, name: str, **changes: Any) -> None:
        """Only write the result."""
        stored = await self.client.get(EPISODES, NAMESPACE, name)
        assert stored is not None, f"there is no Episode {name}"
        episode = Episode.model_validate(stored)
        reward = self.reward(name)
        tokens = self.tokens
        row = None if reward is None else row_of(name, tokens)
        own = episode.metadata.get("labels", {})
        await writer.write(
            self.client,
            name=unique_name(name, episode.uid),
            namespace=NAMESPACE,
            labels={
                EPISODE_UID: episode.uid,
                EPISODE_NAME: label_value(name),
                **{key: own[key] for key in (RUN, GROUP_NAME) if key in own},
            },
            spec=records.result_spec(
                episode=EpisodeReference(name=name, uid=episode.uid),
                group=episode.spec.group,
                image=episode.spec.task.image,
                verdict=_verdict(reward),
                reason=NO_VERDICT if reward is None else "TestsPassed",
                reward=reward,
                reward_components={},
                weight_versions=[]
                if row is None
                else [WeightSpan(version="step-1", start=tokens // 2, end=tokens)],
                counts=Counts()
                if row is None
                else Counts(turns=1, tokens=row.tokens.size, sampled_tokens=int(row.mask.sum())),
                **changes,
            ),
            row=row,
            conversation=None if row is None else records.CONVERSATION,
            artifacts=None,
            store=self.store,
        )


def _verdict(reward: float | None) -> Verdict:
    if reward is None:
        return Verdict.NO_VERDICT
    return Verdict.PASSED if reward else Verdict.FAILED
