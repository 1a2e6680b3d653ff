"""New weights for vLLM: in this order, whole, and it samples again whatever happens."""

import asyncio
from pathlib import Path

import pytest

from examples.trainer.stopping import Stopping
from examples.trainer.weights import Weights, WeightsError
from tests.ports import free_port
from tests.trainer.control import ControlledVllm, push_of


def checkpoint(folder: Path) -> Path:
    """One with more files than the server needs."""
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "optimizer.pt"):
        (folder / name).write_text(name)
    return folder


def weights(server: ControlledVllm, folder: Path) -> Weights:
    return Weights(server.url, folder=folder, on_server=str(folder), stopping=Stopping())


async def test_a_push_names_the_weights_only_when_nothing_of_the_old_is_left(
    tmp_path: Path,
) -> None:
    source, folder = checkpoint(tmp_path / "source"), tmp_path / "pushed"
    (folder / "flat").mkdir(parents=True)
    async with ControlledVllm.running() as server:
        pushed = weights(server, folder)
        for version in ("step-0", "step-1"):
            paused = await asyncio.to_thread(pushed.push, source, version)
            assert 0 < paused < 10
            assert server.version == version and not server.paused
            assert sorted(server.weights) == ["config.json", "model.safetensors"]
        pushed.close()
    assert server.calls == push_of(str(folder), "step-0") + push_of(str(folder), "step-1")
    assert sorted(one.name for one in folder.iterdir()) == ["flat", "step-1"]


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/collective_rpc", 500, "/collective_rpc answered 500.*injected"),
        ("/reset_prefix_cache", 500, "/reset_prefix_cache answered 500"),
        ("/update_weight_version", 404, "VLLM_SERVER_DEV_MODE=1"),
        ("/pause", 500, "/pause answered 500"),
    ],
)
async def test_it_samples_again_after_a_failure(
    tmp_path: Path, path: str, status: int, said: str
) -> None:
    source = checkpoint(tmp_path / "source")
    async with ControlledVllm.running() as server:
        server.failing[path] = status
        pushed = weights(server, tmp_path / "pushed")
        with pytest.raises(WeightsError, match=said):
            await asyncio.to_thread(pushed.push, source, "step-1")
        assert not server.paused and server.calls[-1] == "/resume"
        assert server.version == "default"

        server.failing = {"/collective_rpc": 500, "/resume": 503}
        with pytest.raises(WeightsError, match=r"answered 500.*still is paused.*answered 503"):
            await asyncio.to_thread(pushed.push, source, "step-1")

        server.failing = {}
        await asyncio.to_thread(pushed.push, source, "step-1")
        assert server.version == "step-1" and not server.paused
        pushed.close()


async def test_a_server_that_is_away_is_waited_for(tmp_path: Path) -> None:
    source, stopping = checkpoint(tmp_path / "source"), Stopping()
    pushed = Weights(
        f"http://127.0.0.1:{free_port()}",
        folder=tmp_path / "pushed",
        on_server="/x",
        stopping=stopping,
    )
    waiting = asyncio.create_task(asyncio.to_thread(pushed.push, source, "step-1"))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    stopping.request()
    with pytest.raises(WeightsError, match="stopped while vLLM was away"):
        await waiting
    pushed.close()
