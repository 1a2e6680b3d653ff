"""A conversation with the policy, token exact: what the agent loop works with.

    conversation = await Conversation.start(client, capabilities, messages, tools, sampling=config)
    turn = await conversation.sample()
    await conversation.append([{"role": "tool", "content": "..."}, ...])   # and sample again
    row = conversation.row()

Turn n+1's prompt is turn n's prompt + the sampled ids + the rendering of the new messages. Every
step adds one line to the journal (`new_records`); from all lines `restore` gives the same
conversation, at a turn's end as well as between a turn and its tool results.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from episode_operator.model.calls import THINK_OPEN
from episode_operator.model.capabilities import Capabilities
from episode_operator.model.client import Message, VllmClient
from episode_operator.model.errors import ContextLengthExceeded, ContextLimit, ModelBadResponse
from episode_operator.model.parsing import parse
from episode_operator.model.rendering import Renderer
from episode_operator.model.sampler import Sampler
from episode_operator.model.sampling import SamplingConfig, require_usable_logprobs
from episode_operator.model.special import SpecialTokens
from episode_operator.model.tokens import TokenBuffer, TokenRow
from episode_operator.model.turn import (
    FinishReason,
    SampledTurn,
    make_turn,
    turn_from_record,
    turn_to_record,
)

_TAIL = 16
"""So many ids at the end of a prompt tell whether it ends inside `<think>`."""


class Conversation:
    """One episode's conversation. Not for concurrent use; `client` may be shared.

    Build it with `start` or `restore`. `messages` is the chat so far, for people and for results;
    the ids are never made from it again.
    """

    def __init__(
        self,
        client: VllmClient,
        capabilities: Capabilities,
        *,
        sampling: SamplingConfig,
        tools: Sequence[Mapping[str, Any]],
        template_arguments: Mapping[str, Any] | None,
        specials: SpecialTokens | None,
    ) -> None:
        self._client = client
        self._sampling = sampling
        self._logprobs_mode = capabilities.logprobs_mode
        self._limit = capabilities.prompt_limit
        self._tool_form = capabilities.tool_form
        self._tools = tools
        self._template_arguments = template_arguments
        self._renderer = Renderer(
            client,
            end_token=capabilities.end_token,
            tools=tools,
            template_arguments=template_arguments,
            specials=specials,
        )
        self._sampler = Sampler(client, capabilities, sampling)
        self._buffer = TokenBuffer()
        self._reasoning_open = False
        self._records: list[bytes] = []
        self._told = 0
        self.messages: list[dict[str, Any]] = []
        self.pending: SampledTurn | None = None
        """The last turn while nothing was appended after it; None at a turn's start."""

    @classmethod
    async def start(
        cls,
        client: VllmClient,
        capabilities: Capabilities,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        sampling: SamplingConfig,
        template_arguments: Mapping[str, Any] | None = None,
        specials: SpecialTokens | None = None,
    ) -> "Conversation":
        """Render the first prompt.

        `tools` are OpenAI tool objects; `template_arguments` go to the chat template
        (`enable_thinking`, ...); `specials` may be shared by conversations with one model. Raises
        RawLogprobs, ContextLimit or another ModelError.
        """
        conversation = cls(
            client,
            capabilities,
            sampling=sampling,
            tools=tools,
            template_arguments=template_arguments,
            specials=specials,
        )
        conversation._require_usable_logprobs()
        try:
            ids = await conversation._renderer.first(messages)
        except ContextLengthExceeded as error:
            raise ContextLimit(used=0, needed=None, limit=conversation._limit) from error
        if len(ids) > conversation._limit:
            raise ContextLimit(used=0, needed=len(ids), limit=conversation._limit)
        conversation._add(
            {
                "kind": "start",
                "messages": list(messages),
                "tools": list(tools),
                "template_arguments": template_arguments,
                "ids": ids,
                "reasoning_open": await conversation._opens_reasoning(ids),
            }
        )
        return conversation

    @classmethod
    def restore(
        cls,
        client: VllmClient,
        capabilities: Capabilities,
        state: bytes,
        *,
        sampling: SamplingConfig,
        specials: SpecialTokens | None = None,
    ) -> "Conversation":
        """The conversation whose `state()`, or joined `new_records()`, is `state`.

        Asks the server nothing. Raises ValueError when `state` is not such a thing.
        """
        start = orjson.loads(state.partition(b"\n")[0] or b"{}")
        if not isinstance(start, dict) or start.get("kind") != "start":
            raise ValueError("not the state of a conversation: it has no start")
        conversation = cls(
            client,
            capabilities,
            sampling=sampling,
            tools=start["tools"],
            template_arguments=start["template_arguments"],
            specials=specials,
        )
        conversation.replay(state)
        return conversation

    def replay(self, records: bytes) -> None:
        """Take recorded steps (`new_records()` of another conversation) without asking the server.

        Raises ValueError when they are no such thing.
        """
        for line in records.splitlines():
            self._add(orjson.loads(line))
        self._told = len(self._records)

    @property
    def turns(self) -> int:
        """Turns sampled so far."""
        return self._buffer.turns

    @property
    def token_count(self) -> int:
        """Tokens so far, inserted and sampled."""
        return len(self._buffer)

    @property
    def prompt_ids(self) -> list[int]:
        """The ids so far, a copy: what the next turn is sampled after, once it was appended to."""
        return self._buffer.ids

    async def sample(self) -> SampledTurn:
        """Sample the next turn. Raises ContextLimit or a ModelError; then nothing has changed."""
        if self.pending is not None:
            raise RuntimeError("append the answer to the last turn before sampling the next")
        if len(self._buffer) > self._limit:
            raise ContextLimit(used=len(self._buffer), needed=0, limit=self._limit)
        self._require_usable_logprobs()
        index = self._buffer.turns
        sampled = await self._sampler.turn(self._buffer.ids, index=index)
        finish: FinishReason = "stop" if sampled.finish_reason == "stop" else "length"
        if not sampled.token_ids:
            raise ModelBadResponse("the server sampled no token")
        spoken = sampled.token_ids[:-1] if finish == "stop" else sampled.token_ids
        text = await self._client.detokenize(spoken)
        turn = make_turn(
            index=index,
            token_ids=sampled.token_ids,
            logprobs=sampled.logprobs,
            finish_reason=finish,
            versions=sampled.versions,
            top=sampled.top,
            text=text,
            parsed=await parse(
                self._client,
                self._tool_form,
                text=text,
                token_ids=spoken,
                ended=finish == "stop",
                reasoning_open=self._reasoning_open,
                prompt=self._buffer.ids,
                messages=self.messages,
                tools=self._tools,
            ),
        )
        self._add({"kind": "turn", **turn_to_record(turn)})
        return turn

    def _require_usable_logprobs(self) -> None:
        require_usable_logprobs(self._sampling, mode=self._logprobs_mode)

    async def append(self, messages: Sequence[Message]) -> int:
        """Add what follows the last turn (all of its tool results, or a user message) and open the
        next; the number of ids inserted.

        Raises ContextLimit when the next prompt would leave no room to sample (nothing is added:
        the row ends with the last turn, and shorter messages may be tried), or a ModelError.
        """
        if self.pending is None:
            raise RuntimeError("there is no turn to append to")
        used = len(self._buffer)
        try:
            ids = await self._renderer.following(messages, last=self.pending.last)
        except ContextLengthExceeded as error:
            raise ContextLimit(used=used, needed=None, limit=self._limit) from error
        if used + len(ids) > self._limit:
            raise ContextLimit(used=used, needed=len(ids), limit=self._limit)
        self._add(
            {
                "kind": "append",
                "messages": list(messages),
                "ids": ids,
                "reasoning_open": await self._opens_reasoning(ids),
            }
        )
        return len(ids)

    async def _opens_reasoning(self, ids: Sequence[int]) -> bool:
        """Whether a turn after `ids` begins inside `<think>`: a template may open only some so."""
        tail = await self._client.detokenize(ids[-_TAIL:])
        return tail.rstrip().endswith(THINK_OPEN)

    def row(self) -> TokenRow:
        """The row so far."""
        return self._buffer.row()

    def state(self) -> bytes:
        """All that `restore` needs: one line of JSON for each step."""
        return b"".join(self._records)

    def new_records(self) -> bytes:
        """The part of `state()` that no earlier call returned: append it to a journal."""
        new = b"".join(self._records[self._told :])
        self._told = len(self._records)
        return new

    def _add(self, record: dict[str, Any]) -> None:
        """Take one step: the only place where a conversation changes, live or restored."""
        line = orjson.dumps(record) + b"\n"
        kind = record["kind"]
        if kind == "turn":
            turn = turn_from_record(record, index=self._buffer.turns)
            self._buffer.sample(turn.token_ids, turn.logprobs, turn.versions, top=turn.top)
            self.messages.append(turn.message())
            self.pending = turn
        elif kind in ("start", "append"):
            self._buffer.insert(record["ids"])
            self.messages.extend(dict(message) for message in record["messages"])
            self._reasoning_open = record.get("reasoning_open", self._reasoning_open)
            self.pending = None
        else:
            raise ValueError(f"not the state of a conversation: a step of kind {kind!r}")
        self._records.append(line)
