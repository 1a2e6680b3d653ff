"""What a model server can do, found out once before the first episode on it."""

from dataclasses import dataclass
from typing import Any, Literal

from episode_operator.model.client import VllmClient
from episode_operator.model.errors import ModelChanged
from episode_operator.model.parsing import HERMES, ToolForm, tool_form
from episode_operator.model.patience import Patience
from episode_operator.model.rendering import PLACEHOLDERS, common_suffix
from episode_operator.model.special import SpecialTokens

LogprobsMode = Literal["processed", "raw"]

_QUESTION = {"role": "user", "content": "Hello."}
_PROBE = [1, 2, 3, 4]
"""Ids that every vocabulary has."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """Facts about one model on one server. `root` is where the weights were loaded from.

    `end_token` is the id the chat template writes after an assistant turn, None where it writes
    none (templates whose turns end with the next role's token). `labels_weights`: GET /weight_info
    works. `tool_form` tells who reads the model's tool calls.
    """

    model: str
    root: str | None
    server_version: str
    max_model_len: int
    logprobs_mode: LogprobsMode
    end_token: int | None
    labels_weights: bool
    tool_form: ToolForm = HERMES

    @property
    def identity(self) -> dict[str, Any]:
        """What must stay as it is while an episode is sampled, as JSON."""
        return {
            "root": self.root,
            "maxModelLen": self.max_model_len,
            "logprobsMode": self.logprobs_mode,
        }

    @property
    def prompt_limit(self) -> int:
        """Most tokens a prompt may have so that one more can be sampled."""
        return self.max_model_len - 1


async def detect(client: VllmClient) -> Capabilities:
    """Ask the server: some ten small requests, one of them a sample of one token.

    Raises ModelNotFound, ScaleOutDisabled and whatever else a request may raise.
    """
    served = await client.served_model()
    first, second = [
        await client.render(
            [_QUESTION, {"role": "assistant", "content": answer}], generation_prompt=False
        )
        for answer in PLACEHOLDERS
    ]
    end = await _end_token(client, common_suffix(first, second))
    return Capabilities(
        model=served.name,
        root=served.root,
        server_version=await client.version(),
        max_model_len=served.max_model_len,
        logprobs_mode=await _logprobs_mode(client),
        end_token=end,
        labels_weights=await client.weight_version() is not None,
        tool_form=await tool_form(client),
    )


async def require_unchanged(
    client: VllmClient, capabilities: Capabilities, *, logprobs: bool
) -> None:
    """Raise ModelChanged unless the server still is what `capabilities` says.

    Nothing else tells that it was started anew meanwhile: with another model under the same name,
    another context, or (asked only with `logprobs`) logprobs of another distribution.
    """
    changes = await _model_changes(client, capabilities.root, capabilities.max_model_len)
    if logprobs and (mode := await _logprobs_mode(client)) != capabilities.logprobs_mode:
        changes.append(f"it reports {mode} logprobs, not {capabilities.logprobs_mode} ones")
    _refuse(client, changes)


async def require_same_model(client: VllmClient, *, root: str | None, max_model_len: int) -> None:
    """Raise ModelChanged unless the server's model was loaded from `root` and has this context."""
    _refuse(client, await _model_changes(client, root, max_model_len))


async def _model_changes(client: VllmClient, root: str | None, max_model_len: int) -> list[str]:
    served = await client.served_model()
    changes = []
    if served.root != root:
        changes.append(f"its weights come from {served.root!r}, not from {root!r}")
    if served.max_model_len != max_model_len:
        changes.append(f"its context has {served.max_model_len}, not {max_model_len} tokens")
    return changes


def _refuse(client: VllmClient, changes: list[str]) -> None:
    if changes:
        raise ModelChanged(
            f"{client.endpoint} was started anew with other options: {'; '.join(changes)}. Give "
            "another server another address, or let running Episodes end before"
        )


async def _end_token(client: VllmClient, tail: list[int]) -> int | None:
    if not tail:
        return None
    text = await client.detokenize(tail[:1])
    return tail[0] if await SpecialTokens(client).is_special(text, tail[0]) else None


async def _logprobs_mode(client: VllmClient) -> LogprobsMode:
    """A token that alone is allowed has probability 1 after processing, and hardly before.

    The most likely one's value is asked for too: of a server that reports logits it is above 0.
    """
    params = {"allowed_token_ids": _PROBE[:1], "max_tokens": 1, "logprobs": 1}
    patience = Patience()
    while not (sampled := await client.generate(_PROBE, sampling_params=params)).token_ids:
        await patience.wait("aborts every request")
    return "processed" if sampled.logprobs == [0.0] else "raw"
