"""Which EpisodeResult is meant by a name: its own, or that of its Episode."""

from episode_operator.api.episode import Episode
from episode_operator.api.labels import EPISODE_NAME, label_value, unique_name
from episode_operator.api.result import EpisodeResult
from episode_operator.kube.client import EPISODE_RESULTS, EPISODES, KubernetesClient
from episode_operator.results import writer


class RecordError(Exception):
    """No one result is meant by the name."""


class RecordMissing(RecordError):
    """Neither an Episode nor an EpisodeResult of that name is known."""


class RecordUnfinished(RecordError):
    """The Episode has no result yet."""

    def __init__(self, episode: Episode) -> None:
        super().__init__(
            f"Episode {episode.name} in namespace {episode.namespace} has no result yet; its phase "
            f"is {episode.status.phase or 'not set: no operator has taken it up'}"
        )
        self.episode = episode


class RecordAmbiguous(RecordError):
    """Several Episodes of that name left results."""


async def find(
    client: KubernetesClient, *, namespace: str, name: str
) -> tuple[EpisodeResult, Episode | None]:
    """The result of the Episode of this name, or the one that has this name itself.

    The second is None where the Episode is gone: a result outlives it.

    Raises:
        RecordMissing, RecordUnfinished, RecordAmbiguous: the text says what there is.
    """
    episode = await _episode(client, namespace, name)
    if episode is not None:
        own = unique_name(episode.name, episode.uid)
        result = await writer.load(client, namespace=namespace, name=own)
        if result is None:
            raise RecordUnfinished(episode)
        return result, episode
    result = await writer.load(client, namespace=namespace, name=name)
    if result is None:
        result = await _left_by(client, namespace, name)
    of = result.spec.episode
    episode = await _episode(client, namespace, of.name)
    return result, episode if episode is not None and episode.uid == of.uid else None


async def _episode(client: KubernetesClient, namespace: str, name: str) -> Episode | None:
    stored = await client.get(EPISODES, namespace, name)
    return None if stored is None else Episode.model_validate(stored)


async def _left_by(client: KubernetesClient, namespace: str, name: str) -> EpisodeResult:
    """The one result of Episodes of this name that are gone."""
    labelled = await client.list(
        EPISODE_RESULTS, namespace, labels={EPISODE_NAME: label_value(name)}
    )
    found = [EpisodeResult.model_validate(one) for one in labelled]
    found = [result for result in found if result.spec.episode.name == name]
    if not found:
        raise RecordMissing(
            f"namespace {namespace} has neither an Episode nor an EpisodeResult {name}"
        )
    if len(found) > 1:
        names = ", ".join(sorted(result.metadata["name"] for result in found))
        raise RecordAmbiguous(
            f"several Episodes {name} were in namespace {namespace}; name one of their results: "
            f"{names}"
        )
    return found[0]
