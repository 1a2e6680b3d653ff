"""The tutorial's configuration and its trainer at the real server."""

import asyncio
import sys

import numpy as np

from examples.tutorial import trainer
from tests.atropos.groups import group
from tests.atropos.server import AtroposServer
from tests.atropos.sinks import ready, until
from tests.testbed.stack import ROOT
from trainer_bridge.config import AtroposSinkSettings, load
from trainer_bridge.sinks.atropos import AtroposSink

TUTORIAL = ROOT / "examples" / "tutorial"
STEPS = 2
_TRAINER_SECONDS = 60.0


async def test_the_trainer_takes_its_batches_and_the_bridge_hears_of_it(
    server: AtroposServer,
) -> None:
    config = load(TUTORIAL / "bridge.yaml")
    here = AtroposSinkSettings(kind="atropos", url=server.url)
    sink = config.model_copy(update={"sink": here}).make_sink("uid")
    assert isinstance(sink, AtroposSink)
    sent = [group(seed, size=config.env.group_size) for seed in range(STEPS)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(TUTORIAL / "trainer.py")),
        *("--atropos", server.url, "--steps", str(STEPS)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    await sink.open()
    try:
        await ready(sink)
        for one in sent:
            sink.check(one)
            await sink.send(one)
        output, _ = await asyncio.wait_for(process.communicate(), _TRAINER_SECONDS)
        assert (await until(sink, lambda demand: demand.finished))[0].step == STEPS
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await sink.close()

    expected: list[str] = []
    for step, one in enumerate(sent):
        rows = [record.row for record in one.members]
        masks = [np.where(row.mask, row.tokens, trainer.MASKED) for row in rows if row is not None]
        scores = [record.reward for record in one.members]
        expected += trainer.described(step, [{"scores": scores, "masks": masks}])
    assert process.returncode == 0
    assert output.decode().splitlines() == expected
