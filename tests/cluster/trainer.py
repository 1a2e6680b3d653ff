"""What a trainer does to a running vLLM, over HTTP; and other weights for it to publish."""

import asyncio
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from tests.testbed.chart import UPDATES, WEIGHTS
from tests.testbed.paths import CACHE
from tests.testbed.policy import ensure_policy

FLAT = f"{UPDATES}/flat"
"""Where the server finds the policy with all its logits halved: it is far less sure."""
_SCALE = "model.norm.weight"
_STEP_SECONDS = 240.0


def write_flat_weights() -> None:
    """Make the folder of FLAT on this machine, if it is not there."""
    source = ensure_policy(CACHE, lambda _: None)
    folder = CACHE / "vllm" / "updates" / "flat"
    made = folder / "made-of"
    if made.is_file() and made.read_text() == source.name:
        return
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "config.json", folder / "config.json")
    shutil.copyfile(source / "model.safetensors", folder / "model.safetensors")
    _halve(folder / "model.safetensors", _SCALE)
    made.write_text(source.name)


def _halve(path: Path, name: str) -> None:
    """Halve a bfloat16 tensor of a safetensors file, in place: one less in each exponent."""
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))[name]
        assert header["dtype"] == "BF16"
        start, end = header["data_offsets"]
        file.seek(8 + length + start)
        bits = np.frombuffer(file.read(end - start), dtype=np.uint16)
        assert ((bits & 0x7F80) > 0x0080).all(), "zeros and the smallest numbers have no half"
        file.seek(8 + length + start)
        file.write((bits - 0x0080).astype(np.uint16).tobytes())


class Trainer:
    """Controls one server, which runs in development mode."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url

    async def sampled(self) -> int:
        """Tokens that the server has sampled since its start, for all who asked."""
        async with self._session.get(f"{self.url}/metrics") as answer:
            found = re.findall(
                r"^vllm:generation_tokens_total\{.*\} (\S+)$", await answer.text(), re.MULTILINE
            )
        return sum(int(float(one)) for one in found)

    async def until_sampled(self, total: int) -> None:
        """Wait until the server has sampled so many tokens."""
        end = time.monotonic() + _STEP_SECONDS
        while await self.sampled() < total:
            assert time.monotonic() < end, f"not {total} tokens within {_STEP_SECONDS:.0f} s"
            await asyncio.sleep(0.05)

    async def pause(self, mode: str) -> None:
        """Stop sampling: "abort" ends what runs, "keep" freezes it, "wait" lets it end."""
        await self._post(f"/pause?mode={mode}")

    async def resume(self) -> None:
        """Sample again."""
        await self._post("/resume")

    async def name(self, version: str) -> None:
        """Give the weights another label."""
        await self._post("/update_weight_version", {"new_version": version})

    async def load(self, weights: str) -> None:
        """Load weights; frozen requests, and all that is asked from now on, are computed anew."""
        body = {"method": "reload_weights", "kwargs": {"weights_path": weights}}
        await self._post("/collective_rpc", body)
        await self._post("/reset_prefix_cache?reset_running_requests=true")

    async def publish(self, weights: str, version: str) -> None:
        """Load weights and name them; only while the server is paused."""
        await self.load(weights)
        await self.name(version)

    async def abort(self) -> int:
        """Abort all requests; how many there were."""
        return int((await self._post("/abort_requests", {}))["aborted"])

    async def restore(self) -> None:
        """Make the server what it was when it started."""
        await self.resume()
        await self.publish(WEIGHTS, "default")

    async def _post(self, path: str, body: object = None) -> dict[str, Any]:
        async with self._session.post(self.url + path, json=body) as answer:
            assert answer.status == 200, f"{path}: {answer.status} {await answer.text()}"
            told: dict[str, Any] = await answer.json()
            return told
