"""Conversations over published chat templates, rendered and tokenized by the real vLLM."""

from typing import Any

import pytest

from episode_operator.model import Conversation, SamplingConfig, VllmClient, detect
from tests.fakes.jinja import Model
from tests.fakes.vllm_server import Reply
from tests.model.token_record import Answer, Talk, inserted
from tests.vllm.servers import SERVED, Served, opened

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "terminal",
            "description": "Run a command.",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
        },
    }
]
CALL = {
    "id": "call_0",
    "type": "function",
    "function": {"name": "terminal", "arguments": '{"command": "ls \\"é\\""}'},
}


def by_name(served: Served) -> str:
    return served.name


async def letters(client: VllmClient, text: str) -> tuple[int, ...]:
    """Ids of a text that the tokenizer would not make of it."""
    ids = [one for letter in text for one in await client.tokenize(letter)]
    assert ids != await client.tokenize(text)
    return tuple(ids)


async def talk(client: VllmClient, model: Model, *, ended: bool, printed: str) -> Talk:
    ids = await letters(client, "I think the answer is a message")
    end = await client.tokenize(model.end)
    role = "tool" if model.takes_tools else "user"
    messages = [{"role": role, "content": printed}, {"role": role, "content": "b\n\n"}]
    return Talk(
        model=model,
        tools=TOOLS if model.takes_tools else [],
        opening=[{"role": "system", "content": "Be short."}, {"role": "user", "content": "Do it."}],
        answers=[Answer(ids=(*ids, *end) if ended else ids, ended=ended)] * 3,
        following=[messages[:1], messages if model.takes_tools else messages[:1]],
    )


@pytest.mark.parametrize("served", SERVED, ids=by_name)
async def test_between_the_sampled_ids_stands_what_the_template_writes(
    urls: dict[str, str], served: Served
) -> None:
    model = served.model
    async with opened(urls[served.name]) as (server, client):
        capabilities = await detect(client)
        specials = [one for text in model.specials for one in await client.tokenize(text)]
        assert len(specials) == len(model.specials)
        printed = f"x{model.end}y [0] é🌊 {model.specials[-1]}"
        for ended, output in ((True, "plain"), (False, "plain"), (True, printed)):
            said = await talk(client, model, ended=ended, printed=output)
            conversation = await Conversation.start(
                client,
                capabilities,
                said.opening,
                said.tools,
                sampling=SamplingConfig(max_tokens=200),
            )
            before: list[int] = []
            for turn, answer in enumerate(said.answers):
                prompt = conversation.prompt_ids
                assert prompt[: len(before)] == before
                new = prompt[len(before) :]
                text = inserted(said, turn)
                assert await client.detokenize(new) == text
                harmless = text.replace(output, "plain") if output == printed else text
                canonical = await client.tokenize(harmless)
                if output != printed:
                    assert new == canonical
                ids = [one for one in new if one in specials]
                assert ids == [one for one in canonical if one in specials]
                finish = "stop" if answer.ended else "length"
                server.replies.append(Reply(ids=answer.ids, finish_reason=finish))
                await conversation.sample()
                before = [*prompt, *answer.ids]
                if turn < len(said.following):
                    await conversation.append(said.following[turn])
            row = conversation.row()
            assert row.tokens.tolist() == before
            assert row.mask.sum() == sum(len(answer.ids) for answer in said.answers)


@pytest.mark.parametrize("served", SERVED, ids=by_name)
async def test_the_fixtures_render_as_vllm_does(urls: dict[str, str], served: Served) -> None:
    """So that what the tests without vLLM show of a template holds of the real thing."""
    model = served.model
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be <b>short</b>."},
        {"role": "user", "content": " Do it. "},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nSo."},
    ]
    if model.takes_tools and served.name != "ChatML":
        messages[-1]["tool_calls"] = [CALL]
        messages += [{"role": "tool", "content": 'a "quoted" é'}]
    messages += [{"role": "user", "content": "And now?"}]
    async with opened(urls[served.name]) as (_, client):
        for generation_prompt in (True, False):
            ids = await client.render(messages, tools=TOOLS, generation_prompt=generation_prompt)
            expected = model.render(messages, TOOLS, generation_prompt)
            assert await client.detokenize(ids) == expected
