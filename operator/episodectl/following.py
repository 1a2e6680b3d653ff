"""How an Episode that is at work, and its end, are shown."""

import time

import orjson
import typer
from rich.console import Console
from rich.text import Text

from episode_operator.api.episode import Episode, EpisodeStatus
from episode_operator.api.reasons import ConditionType
from episode_operator.kube.client import KubernetesClient
from episode_operator.kube.rows import age
from episodectl import episodes, view
from episodectl.errors import CommandError
from episodectl.rows import VERDICT_STYLES
from episodectl.running import PROGRAM, say


def described(status: EpisodeStatus) -> str:
    """A status in a line: the phase, the pod, and what is in the way.

    An Episode that is not finished has a reason only for what failed before.
    """
    parts = [str(status.phase or "not taken up yet")]
    if status.pod_name is not None:
        parts.append(f"pod {status.pod_name}")
    if status.attempts:
        last = status.attempts[-1]
        parts.append(f"attempt {last.attempt} failed, {last.reason}: {last.message}")
    waiting = next((c for c in status.conditions if c.status == "False" and c.message), None)
    if waiting is not None and waiting.type != ConditionType.FINISHED:
        parts.append(f"{waiting.reason}: {waiting.message}")
    return view.visible("  ".join(parts)).replace("↵\n", " ")


class Lines:
    """Tells of an Episode on standard error: a line whenever its status reads otherwise."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._last = ""

    def show(self, status: EpisodeStatus) -> None:
        """Tell the status, unless it reads as the one before."""
        line = described(status)
        if line != self._last and not status.finished:
            say(f"{age(time.monotonic() - self._started):>6}  {line}", "dim")
        self._last = line


async def finished(client: KubernetesClient, namespace: str, name: str) -> Episode:
    """The Episode once it is finished, with its phases told on the way.

    Raises:
        CommandError: nobody works on it.
        ApiError: the API server does not answer, or refuses.
    """
    try:
        return await episodes.finished(client, namespace, name, on_change=Lines().show)
    except episodes.NotFinishedError as error:
        raise CommandError(f"{error.reason}: {error}") from error


def print_ending(console: Console, episode: Episode, *, as_json: bool) -> None:
    """Print the verdict: a line for people, or JSON."""
    if as_json:
        typer.echo(orjson.dumps(episodes.ending(episode)))
        return
    status = episode.status
    verdict = str(status.verdict)
    text = Text(f"{episode.name}  ", style="bold").append(verdict, VERDICT_STYLES[verdict])
    text.append("" if status.reward is None else f"  reward {status.reward:g}", "not bold")
    message = view.visible(status.message or "").replace("↵\n", " ")
    text.append(f"  {status.reason}: {message}", "not bold")
    console.print(text, soft_wrap=True)
    command = f"{PROGRAM.get()} show {episode.name} -n {episode.namespace}"
    say(f"see its turns, and what its test printed: {command}", "dim")
