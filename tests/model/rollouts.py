"""A rollout on the scripted server, with its prompts written out by hand."""

import json
from dataclasses import dataclass

from episode_operator.distill import Rollout
from episode_operator.model import Capabilities, SpecialTokens, VllmClient, detect
from episode_operator.model.conversation import Conversation
from episode_operator.model.sampling import SamplingConfig
from tests.distillation import rollout_of
from tests.fakes import chat
from tests.fakes.judge import yes
from tests.fakes.vllm_server import FakeVllm, Reply

TOOLS = [{"type": "function", "function": {"name": "terminal", "parameters": {"type": "object"}}}]
CALL = '<tool_call>\n{"name": "terminal", "arguments": {"command":"ls"}}\n</tool_call>'
UNMERGED = (*chat.encode("["), *chat.encode("["), *chat.encode("x"), chat.END)
"""Ids that the tokenizer would not make of their text: it has an id for "[["."""
HINTS = [f"Do better in turn {number}, with care." for number in range(4)]

_ASSISTANT = "<|im_start|>assistant\n"
_RESPONSE = "<|im_start|>user\n<tool_response>\n{}\n</tool_response><|im_end|>\n"
_HINT = "[user's hint / instruction]\n{}"
_HARMLESS = [*chat.encode("<"), *chat.encode("|im_end|>")]


@dataclass(frozen=True)
class ServedModel:
    """What the pipeline needs of the policy."""

    client: VllmClient
    capabilities: Capabilities
    specials: SpecialTokens


async def served(client: VllmClient) -> ServedModel:
    """The model behind a client."""
    return ServedModel(client, await detect(client), SpecialTokens(client))


async def recorded(server: FakeVllm, policy: ServedModel) -> Rollout:
    """Five turns: a call, ids cut oddly, an answer, one that is cut off, and a last one.

    What follows: a result, one with special text, a user, a user, nothing.
    """
    server.replies.extend(
        [
            Reply(text=CALL),
            Reply(ids=UNMERGED),
            Reply(text="All done."),
            Reply(text="I was cut", finish_reason="length"),
            Reply(text="Done."),
        ]
    )
    opening = [
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": "Do it."},
    ]
    conversation = await Conversation.start(
        policy.client,
        policy.capabilities,
        opening,
        TOOLS,
        sampling=SamplingConfig(),
        specials=policy.specials,
    )
    following = [
        [{"role": "tool", "content": "a.txt", "tool_call_id": "call_0_0"}],
        [{"role": "tool", "content": "boom <|im_end|>", "tool_call_id": "call_1_0"}],
        [{"role": "user", "content": "No, again."}],
        [{"role": "user", "content": "Go on."}],
    ]
    for messages in following:
        await conversation.sample()
        await conversation.append(messages)
    await conversation.sample()
    return rollout_of(conversation, TOOLS)


def hint_every_turn(server: FakeVllm) -> None:
    """Let the judge give each turn its own hint."""
    for text, hint in zip(('"command":"ls"', "[[x", "All done.", "I was cut"), HINTS, strict=True):
        server.judge.when(f"(turn t)\n{text}" if text[0] != '"' else text, yes(hint))


def _opening(hint: str = "") -> list[int]:
    tools = f"<tools>{json.dumps(TOOLS)}</tools>"
    return chat.encode(
        f"{tools}<|im_start|>system\nBe good.<|im_end|>\n"
        f"<|im_start|>user\nDo it.{hint}<|im_end|>\n{_ASSISTANT}"
    )


def _result(text: str, after: str = "") -> list[int]:
    return chat.encode(f"\n{_RESPONSE.format(text)}{after}{_ASSISTANT}")


def _special_result(after: str = "") -> list[int]:
    ids = _result("boom <|im_end|>", after)
    at = ids.index(chat.END)
    return [*ids[:at], *_HARMLESS, *ids[at + 1 :]]


def _user(text: str) -> list[int]:
    return chat.encode(f"\n<|im_start|>user\n{text}<|im_end|>\n{_ASSISTANT}")


def prompts_before_turn() -> dict[int, list[int]]:
    """The prompts of turns 0 to 3 with their hints just before the turn."""
    own = [f"<|im_start|>user\n{_HINT.format(hint)}<|im_end|>\n" for hint in HINTS]
    call, answer = [*chat.encode(CALL), chat.END], [*chat.encode("All done."), chat.END]
    second = [*_opening(), *call, *_result("a.txt")]
    third = [*second, *UNMERGED, *_special_result()]
    return {
        0: _opening("\n\n" + _HINT.format(HINTS[0])),
        1: [*_opening(), *call, *_result("a.txt", own[1])],
        2: [*second, *UNMERGED, *_special_result(own[2])],
        3: [*third, *answer, *_user("No, again.\n\n" + _HINT.format(HINTS[3]))],
    }


def prompts_last_user_message() -> dict[int, list[int]]:
    """The prompts of turns 0 to 3 with their hints in the last user message."""
    first, second, third, _ = [_opening("\n\n" + _HINT.format(hint)) for hint in HINTS]
    call = [*chat.encode(CALL), chat.END]
    return {
        0: first,
        1: [*second, *call, *_result("a.txt")],
        2: [*third, *call, *_result("a.txt"), *UNMERGED, *_special_result()],
        3: prompts_before_turn()[3],
    }
