"""One sampled turn, as the agent loop sees it, and its form in the journal."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import orjson

from episode_operator.api.reasons import MalformedCallKind
from episode_operator.model.calls import MalformedCall, ParsedTurn, ToolCall
from episode_operator.model.wire import VersionSpan

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, kw_only=True)
class SampledTurn:
    """What the policy sampled in one turn.

    `token_ids` and `logprobs` [n] belong together; `versions` has positions in [0, n); `top` holds
    the most likely (id, logprob) of each position when they were asked for. `text` is the decoded
    answer without its end token. `calls` and `malformed` are empty unless the turn ended by itself:
    a turn that was cut off ("length") runs no tool, and only the number of its calls is known.
    """

    index: int
    token_ids: list[int]
    logprobs: list[float]
    finish_reason: FinishReason
    versions: tuple[VersionSpan, ...]
    top: list[list[tuple[int, float]]]
    text: str
    reasoning: str
    content: str
    calls: tuple[ToolCall, ...]
    malformed: tuple[MalformedCall, ...]
    cut_calls: int

    @property
    def truncated(self) -> bool:
        """Whether the turn was cut off, by max_tokens or by the context."""
        return self.finish_reason == "length"

    @property
    def last(self) -> int | None:
        """The id that ended the turn; None when it was cut off."""
        return None if self.truncated or not self.token_ids else self.token_ids[-1]

    def call_id(self, number: int) -> str:
        """Id of call `number` of this turn, unique within the episode; malformed ones count on
        behind the good ones.
        """
        return f"call_{self.index}_{number}"

    def message(self) -> dict[str, Any]:
        """The turn as a chat message. Without tool calls `content` is the whole text."""
        if not self.calls:
            return {"role": "assistant", "content": self.text}
        return {
            "role": "assistant",
            "content": self.content,
            **({"reasoning": self.reasoning} if self.reasoning else {}),
            "tool_calls": [
                {
                    "id": self.call_id(number),
                    "type": "function",
                    "function": {
                        "name": call.name,
                        "arguments": orjson.dumps(call.arguments).decode(),
                    },
                }
                for number, call in enumerate(self.calls)
            ],
        }


def make_turn(
    *,
    index: int,
    token_ids: list[int],
    logprobs: list[float],
    finish_reason: FinishReason,
    versions: tuple[VersionSpan, ...],
    top: list[list[tuple[int, float]]],
    text: str,
    parsed: ParsedTurn,
) -> SampledTurn:
    """The turn as `parsed` reads it; see SampledTurn."""
    return SampledTurn(
        index=index,
        token_ids=token_ids,
        logprobs=logprobs,
        finish_reason=finish_reason,
        versions=versions,
        top=top,
        text=text,
        reasoning=parsed.reasoning,
        content=parsed.content,
        calls=parsed.calls,
        malformed=parsed.malformed,
        cut_calls=parsed.cut_calls,
    )


def turn_to_record(turn: SampledTurn) -> dict[str, Any]:
    """The JSON form of a turn: also of what was read out of it, so that an operator of another
    version, with another parser, goes on with the same calls.
    """
    record = asdict(turn)
    del record["index"]
    return record


def turn_from_record(record: Mapping[str, Any], *, index: int) -> SampledTurn:
    """The turn that `turn_to_record` was given."""
    return SampledTurn(
        index=index,
        token_ids=record["token_ids"],
        logprobs=record["logprobs"],
        finish_reason=record["finish_reason"],
        versions=tuple(VersionSpan(**span) for span in record["versions"]),
        top=[[(token_id, logprob) for token_id, logprob in row] for row in record["top"]],
        text=record["text"],
        reasoning=record["reasoning"],
        content=record["content"],
        calls=tuple(ToolCall(**call) for call in record["calls"]),
        malformed=tuple(
            MalformedCall(**{**piece, "kind": MalformedCallKind(piece["kind"])})
            for piece in record["malformed"]
        ),
        cut_calls=record["cut_calls"],
    )
