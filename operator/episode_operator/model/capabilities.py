"""What a model server can do, found out once before the first episode on it."""

from dataclasses import dataclass
from typing import Literal

from episode_operator.model.client import VllmClient
from episode_operator.model.parsing import ToolForm, tool_form
from episode_operator.model.rendering import PLACEHOLDERS, common_suffix
from episode_operator.model.special import SpecialTokens

LogprobsMode = Literal["processed", "raw"]

_QUESTION = {"role": "user", "content": "Hello."}


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """Facts about one model on one server.

    `end_token` is the id the chat template writes after an assistant turn, None where it writes
    none (templates whose turns end with the next role's token). `labels_weights`: GET /weight_info
    works. `tool_form` tells who reads the model's tool calls.
    """

    model: str
    server_version: str
    max_model_len: int
    logprobs_mode: LogprobsMode
    end_token: int | None
    labels_weights: bool
    tool_form: ToolForm = ToolForm.HERMES

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
        server_version=await client.version(),
        max_model_len=served.max_model_len,
        logprobs_mode=await _logprobs_mode(client, first),
        end_token=end,
        labels_weights=await client.weight_version() is not None,
        tool_form=await tool_form(client),
    )


async def _end_token(client: VllmClient, tail: list[int]) -> int | None:
    if not tail:
        return None
    text = await client.detokenize(tail[:1])
    return tail[0] if await SpecialTokens(client).is_special(text, tail[0]) else None


async def _logprobs_mode(client: VllmClient, prompt: list[int]) -> LogprobsMode:
    """A token that alone is allowed has probability 1 after processing, and hardly before."""
    sampled = await client.generate(
        prompt, sampling_params={"allowed_token_ids": prompt[:1], "max_tokens": 1}
    )
    return "processed" if sampled.logprobs == [0.0] else "raw"
