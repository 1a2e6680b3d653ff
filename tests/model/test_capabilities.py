"""What is found out about a server before the first episode."""

import pytest

from episode_operator.model import (
    ModelNotFound,
    Reader,
    ScaleOutDisabled,
    ToolForm,
    VllmClient,
    detect,
)
from tests.fakes import chat
from tests.fakes.vllm_server import FakeVllm


@pytest.mark.parametrize("mode", ["processed", "raw"])
async def test_a_usual_server(server: FakeVllm, client: VllmClient, mode: str) -> None:
    server.logprobs_mode = mode
    server.max_model_len = 512
    capabilities = await detect(client)
    assert capabilities.logprobs_mode == mode
    assert capabilities.max_model_len == 512 and capabilities.prompt_limit == 511
    assert capabilities.end_token == chat.END
    assert capabilities.server_version == "0.32.0"
    assert not capabilities.labels_weights


async def test_a_server_that_labels_its_weights(server: FakeVllm, client: VllmClient) -> None:
    server.labels_weights, server.weights = True, "7"
    assert (await detect(client)).labels_weights
    assert await client.weight_version() == "7"


async def test_a_template_without_end_token(server: FakeVllm, client: VllmClient) -> None:
    server.template = chat.role_ended
    assert (await detect(client)).end_token is None


async def test_a_server_without_scale_out_says_how_to_start_it(
    server: FakeVllm, client: VllmClient
) -> None:
    server.scale_out = False
    with pytest.raises(ScaleOutDisabled, match="--enable-scale-out"):
        await detect(client)


async def test_a_wrong_name(server: FakeVllm) -> None:
    async with VllmClient.open(server.url, "other") as client:
        with pytest.raises(ModelNotFound):
            await detect(client)


@pytest.mark.parametrize(
    ("template", "reader", "example"),
    [
        (
            chat.chatml,
            Reader.HERMES,
            '<tool_call>\n{"name": "probe", "arguments": {}}\n</tool_call>',
        ),
        (chat.bracketed, Reader.SERVER, "[CALL probe {}]"),
        (chat.role_ended, Reader.HERMES, ""),
    ],
    ids=["hermes", "another", "none"],
)
async def test_the_form_of_tool_calls(
    server: FakeVllm, client: VllmClient, template: chat.Template, reader: Reader, example: str
) -> None:
    server.template = template
    assert (await detect(client)).tool_form == ToolForm(reader=reader, example=example)
