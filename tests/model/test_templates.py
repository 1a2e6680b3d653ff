"""The token record over the chat templates that models are published with."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episode_operator.model import (
    Capabilities,
    Conversation,
    ModelBadRequest,
    SamplingConfig,
    TokenRow,
    VllmClient,
    detect,
)
from tests.fakes.jinja import MODELS, Model
from tests.fakes.vllm_server import GENERATE, MODEL, FakeVllm, Reply, logprob_of
from tests.model import token_record
from tests.model.token_record import Answer, Messages, Talk

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "terminal", "parameters": {"type": "object"}}}
]
CALL = {
    "id": "call_0",
    "type": "function",
    "function": {"name": "terminal", "arguments": '{"command": "ls"}'},
}
PIECES = (
    "word",
    " ",
    "\n",
    "\n\n",
    "[0]",
    "{{x}}",
    "é",
    "🌊",
    '"',
    "\\",
    "<b>",
    "|",
    "<",
    ">",
    "\t",
)


@st.composite
def talks(draw: st.DrawFn, model: Model) -> Talk:
    """Conversations of up to four turns with one model."""
    content = st.lists(st.sampled_from((*PIECES, *model.specials)), max_size=6).map("".join)
    ends = [model.tokenizer.id_of(one) for one in (model.end, *model.other_ends)]
    inner = [*model.tokenizer.ordinary]
    inner += [
        model.tokenizer.id_of(one) for one in model.specials if "think" in one or "call" in one
    ]
    with_tools = model.takes_tools and draw(st.booleans())

    def message(role: str) -> dict[str, Any]:
        return {"role": role, "content": draw(content)}

    def answer() -> Answer:
        ids = draw(st.lists(st.sampled_from(inner), min_size=1, max_size=8))
        ended = draw(st.integers(0, 3)) > 0
        return Answer(ids=(*ids, draw(st.sampled_from(ends))) if ended else tuple(ids), ended=ended)

    def following() -> Messages:
        results = draw(st.integers(0, 3)) if with_tools else 0
        spoken = not results or draw(st.integers(0, 3)) == 0
        return [message("tool") for _ in range(results)] + ([message("user")] if spoken else [])

    answers = [answer() for _ in range(draw(st.integers(1, 4)))]
    return Talk(
        model=model,
        tools=TOOLS if with_tools else [],
        opening=[*([message("system")] if draw(st.booleans()) else []), message("user")],
        answers=answers,
        following=[following() for _ in answers[1:]],
    )


def by_name(model: Model) -> str:
    return model.name


_DETECTED: dict[str, Capabilities] = {}


@asynccontextmanager
async def running(model: Model) -> AsyncIterator[tuple[FakeVllm, VllmClient]]:
    """A server that renders and tokenizes as a model's does, and a client."""
    async with (
        FakeVllm.running() as server,
        VllmClient.open(server.url, MODEL, request_timeout=5.0, retry_budget=5.0) as client,
    ):
        server.tokenizer, server.template = model.tokenizer, model.render
        if model.name not in _DETECTED:
            _DETECTED[model.name] = await detect(client)
            server.requests.clear()
        yield server, client


async def start(client: VllmClient, talk: Talk) -> Conversation:
    """The talk's first prompt."""
    return await Conversation.start(
        client,
        _DETECTED[talk.model.name],
        talk.opening,
        talk.tools,
        sampling=SamplingConfig(max_tokens=100),
        template_arguments=dict(talk.model.arguments),
    )


async def held(talk: Talk, *, interrupt: bool = False) -> tuple[list[list[int]], TokenRow]:
    """The talk, held through Conversation: the prompts that were sampled after, and the row."""
    async with running(talk.model) as (server, client):
        conversation = await start(client, talk)
        prompts: list[list[int]] = []
        for number, answer in enumerate(talk.answers):
            half = len(answer.ids) // 2 if interrupt else 0
            if half:
                server.replies.append(Reply(ids=answer.ids[:half], finish_reason="abort"))
            finish = "stop" if answer.ended else "length"
            server.replies.append(Reply(ids=answer.ids[half:], finish_reason=finish))
            prompts.append(conversation.prompt_ids)
            turn = await conversation.sample()
            assert turn.token_ids == list(answer.ids) and turn.truncated is not answer.ended
            if number < len(talk.following):
                await conversation.append(talk.following[number])
        asked = [body["token_ids"] for body in server.bodies(GENERATE)]
        assert all(prompt in asked for prompt in prompts)
        return prompts, conversation.row()


def check_row(talk: Talk, prompts: list[list[int]], row: TokenRow) -> None:
    """Exactly the sampled ids are marked as sampled, with the server's logprobs."""
    ids = [*prompts[-1], *talk.answers[-1].ids]
    assert row.tokens.tolist() == ids
    mask = np.zeros(len(ids), dtype=bool)
    for number, (prompt, answer) in enumerate(zip(prompts, talk.answers, strict=True)):
        place = slice(len(prompt), len(prompt) + len(answer.ids))
        mask[place] = True
        assert row.tokens[place].tolist() == list(answer.ids)
        assert (row.turn[place] == number).all()
    assert row.mask.tolist() == mask.tolist()
    expected = [logprob_of(at, one) if mask[at] else 0.0 for at, one in enumerate(ids)]
    assert row.logprobs.tolist() == np.array(expected, dtype=np.float32).tolist()


@pytest.mark.parametrize("model", MODELS, ids=by_name)
@settings(max_examples=25, derandomize=True, deadline=None, database=None)
@given(st.data())
def test_between_the_sampled_ids_stands_what_the_template_writes(
    model: Model, data: st.DataObject
) -> None:
    """cases.md 12."""
    talk = data.draw(talks(model))
    prompts, row = asyncio.run(held(talk))
    token_record.check(talk, prompts)
    check_row(talk, prompts, row)


def example(model: Model, *, ended: bool = True, printed: str = "some output") -> Talk:
    """Three turns; the sampled ids are not those that the tokenizer makes of their text."""
    tokenizer = model.tokenizer
    end = (tokenizer.id_of(model.end),) if ended else ()
    ids = tuple(b"I think the answer is message")
    assert tokenizer.encode(tokenizer.decode(ids)) != list(ids)
    role = "tool" if model.takes_tools else "user"
    return Talk(
        model=model,
        tools=TOOLS if model.takes_tools else [],
        opening=[{"role": "user", "content": "Do it."}],
        answers=[Answer(ids=ids + end, ended=ended)] * 3,
        following=[[{"role": role, "content": printed}]] * 2,
    )


@pytest.mark.parametrize("model", MODELS, ids=by_name)
@pytest.mark.parametrize("interrupt", [False, True], ids=["whole", "aborted"])
async def test_the_example(model: Model, interrupt: bool) -> None:
    for talk in (example(model), example(model, ended=False), example(model, printed=model.end)):
        prompts, row = await held(talk, interrupt=interrupt)
        token_record.check(talk, prompts)
        check_row(talk, prompts, row)


@pytest.mark.parametrize("model", MODELS, ids=by_name)
def test_wrong_ways_are_found_out(model: Model) -> None:
    """The property is worth nothing if it lets these pass."""
    plain, cut, printed = (
        example(model),
        example(model, ended=False),
        example(model, printed=model.end),
    )
    wrong = [
        (token_record.render_again, plain),
        (token_record.new_messages_alone, plain),
        (token_record.end_token_twice, plain),
        (token_record.end_token_never, cut),
        (token_record.special_text_becomes_special, printed),
    ]
    if not model.template.startswith("llama"):  # nothing stands behind its end token
        wrong.append((token_record.prefix_difference, plain))
    for way, talk in wrong:
        with pytest.raises(AssertionError):
            token_record.check(talk, way(talk))
    token_record.check(plain, token_record.special_text_becomes_special(plain))


GEMMA = next(model for model in MODELS if not model.takes_tools)


async def test_a_template_without_a_tool_role_takes_no_tool_results() -> None:
    """Gemma 3: the server's own words go into the Episode's result; the row is left whole."""
    talk = replace(example(GEMMA), tools=TOOLS, following=[[{"role": "tool", "content": "x"}]])
    async with running(GEMMA) as (server, client):
        conversation = await start(client, talk)
        server.replies.append(Reply(ids=talk.answers[0].ids))
        turn = await conversation.sample()
        state = conversation.state()
        with pytest.raises(ModelBadRequest, match="roles must alternate"):
            await conversation.append(talk.following[0])
        assert conversation.state() == state and conversation.pending == turn


@pytest.mark.parametrize("tools", [[], TOOLS], ids=["no tools", "tools"])
async def test_llama_ends_a_turn_with_another_token(tools: list[dict[str, Any]]) -> None:
    """`<|eom_id|>` stands in the place of `<|eot_id|>`, as in the template's own rendering."""
    llama = next(model for model in MODELS if model.name == "Llama 3")
    eom, eot = map(llama.tokenizer.id_of, ("<|eom_id|>", "<|eot_id|>"))
    talk = Talk(
        model=llama,
        tools=tools,
        opening=[{"role": "user", "content": "Do it."}],
        answers=[Answer(ids=(65, eom), ended=True), Answer(ids=(65, eot), ended=True)],
        following=[[{"role": "tool", "content": "x"}]],
    )
    prompts, _ = await held(talk)
    token_record.check(talk, prompts)
    official = llama.render(
        [
            *talk.opening,
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            *talk.following[0],
        ],
        tools,
        True,
        builtin_tools=["terminal"],
    )
    new = llama.tokenizer.decode(prompts[1][len(prompts[0]) + 2 :])
    assert official.endswith(f"<|eom_id|>{new}") and eot not in prompts[1][-4:]
