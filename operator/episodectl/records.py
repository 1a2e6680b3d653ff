"""Records of finished Episodes by a name that the user gave."""

from episode_operator.kube.client import EPISODE_RESULTS, EPISODES, KubernetesClient
from episode_operator.results.finding import RecordMissing
from episode_operator.results.record import EpisodeRecord
from episodectl import episodes
from episodectl.errors import UnknownNameError


async def load(client: KubernetesClient, namespace: str, name: str) -> EpisodeRecord:
    """As `EpisodeRecord.load`.

    Raises:
        UnknownNameError: neither an Episode nor an EpisodeResult has the name.
    """
    try:
        return await EpisodeRecord.load(client, namespace=namespace, name=name)
    except RecordMissing as error:
        known = [
            known
            for resource in (EPISODES, EPISODE_RESULTS)
            for known in await episodes.names(client, resource, namespace)
        ]
        what = "neither an Episode nor an EpisodeResult"
        raise UnknownNameError(what, name, namespace, known) from error
