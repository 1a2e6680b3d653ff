"""One run: train, with an evaluation before and now and then, and evaluate what came of it.

Stopped at any moment, it goes on from its folder.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from examples.learning import cluster
from examples.learning.costs import Costs
from examples.learning.plan import FAMILIES, HELD_OUT_SHARE, TASKS, Places, Plan, bridge_config
from examples.learning.processes import Part, Parts
from tests.atropos.environment import ensure_atropos
from tests.ports import free_port, listening
from tests.testbed import chart
from tests.testbed.paths import CACHE
from tests.testbed.stack import Stack
from tests.testbed.vllm import SERVED_MODEL, ensure_vllm_environment
from trainer_bridge.statistics import evaluation_files
from trainer_bridge.statistics.evaluation import EvaluationReport

Json = dict[str, Any]

AFTER = "after"

_LABEL = re.compile(r"-e\d+s(\d+)$")
_LOOK_SECONDS = 2.0


async def learn(
    plan: Plan, running: Stack, warm_start: Path, *, say: Callable[[str], None]
) -> None:
    """Do what is still to do of the plan.

    Raises:
        PartError: a part ended that must not.
    """
    plan.output.mkdir(parents=True, exist_ok=True)
    atropos, judge = free_port(), free_port()
    places = Places(
        model=cluster.MODEL_ENDPOINT,
        model_name=SERVED_MODEL,
        judge=f"http://{running.host_address}:{judge}",
        atropos=f"http://127.0.0.1:{atropos}",
        image=running.images["task-python"],
    )
    async with Parts(plan.output / "logs", running.environment) as parts:
        vllm = cluster.model_server(running)
        run = _Run(plan, places, parts, vllm=vllm, warm_start=warm_start, say=say)
        await run.start_services(running.host_address, atropos=atropos, judge=judge)
        await run.train()
        if after(plan) is None:
            await run.evaluate()


class _Run:
    def __init__(
        self,
        plan: Plan,
        places: Places,
        parts: Parts,
        *,
        vllm: str,
        warm_start: Path,
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._places = places
        self._parts = parts
        self._vllm = vllm
        self._warm_start = warm_start
        self._say = say
        self._shown = 0

    async def start_services(self, host: str, *, atropos: int, judge: int) -> None:
        """The Atropos server, and the judge where one is asked."""
        python = await asyncio.to_thread(ensure_atropos, self._say)
        await self._parts.start(
            "atropos",
            str(python.with_name("run-api")),
            *("--host", "127.0.0.1", "--port", str(atropos)),
        )
        await listening(atropos)
        if self._plan.distils:
            await self._parts.start(
                "judge",
                sys.executable,
                *("-m", "examples.learning.judge", "--host", host, "--port", str(judge)),
                *("--seed", str(self._plan.seed), "--limit", str(TASKS)),
                *("--eval-split-ratio", str(HELD_OUT_SHARE)),
                *("--families", *FAMILIES),
                *(["--another-task"] if self._plan.hints_of_another_task else []),
            )
            await listening(judge, host)

    async def evaluate(self) -> None:
        """Try the held-out tasks with the weights that the server has."""
        self._say(f"evaluation of {self._plan.evaluated} held-out tasks")
        part = await self._bridge(f"{self._plan.name}-{AFTER}", "evaluate", "--label", AFTER)
        await part.ended()

    async def train(self) -> None:
        """All steps that are still to take, with what it costs by part."""
        trainer = await self._trainer()
        if len(steps(self._plan)) >= self._plan.steps:
            await trainer.ended()  # it has only pushed its weights
            return
        bridge = await self._bridge(self._plan.name, "serve")
        costs = Costs({"bridge": bridge.pid, "trainer": trainer.pid})
        with _kept(self._plan.output, costs):
            await self._follow(trainer, bridge, costs)
            await bridge.ended()

    async def _follow(self, trainer: Part, bridge: Part, costs: Costs) -> None:
        ended = asyncio.create_task(trainer.ended())
        try:
            while not ended.done():
                await asyncio.wait({ended}, timeout=_LOOK_SECONDS)
                costs.look()
                self._show()
                if bridge.process.returncode:
                    await bridge.ended()
            await ended
        finally:
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)
        self._show()

    def _show(self) -> None:
        taken = steps(self._plan)
        for step in taken[self._shown :]:
            self._say(
                f"step {step['step'] + 1}/{self._plan.steps}: reward {step['reward_mean']:.2f}, "
                f"{step['seconds']['wait']:.0f} s for the batch, "
                f"{step['seconds']['compute']:.0f} s to learn"
            )
        self._shown = len(taken)

    async def _bridge(self, run: str, command: str, *options: str) -> Part:
        file = self._plan.output / f"{run}.yaml"
        file.write_text(yaml.safe_dump(bridge_config(self._plan, self._places, run=run)))
        return await self._parts.start(
            f"bridge-{command}",
            sys.executable,
            *("-m", "trainer_bridge", command, "-c", str(file), *options),
        )

    async def _trainer(self) -> Part:
        plan = self._plan
        python = await asyncio.to_thread(ensure_vllm_environment, CACHE, self._say)
        weights = {"reward": ("1", "0"), "hints": ("0", "1"), "both": ("1", "1")}[plan.signal]
        return await self._parts.start(
            "trainer",
            str(python),
            *("-m", "examples.trainer", "--atropos", self._places.atropos, "--vllm", self._vllm),
            *("--model", str(self._warm_start), "--output", str(plan.output / "trainer")),
            *("--pushed", str(cluster.PUSHED / plan.name)),
            *("--pushed-on-server", f"{chart.UPDATES}/{plan.name}"),
            *("--steps", str(plan.steps), "--epochs", str(plan.epochs)),
            *("--batch-size", str(plan.batch_size), "--micro-batch", str(plan.batch_size)),
            *("--max-token-length", "1024", "--learning-rate", str(plan.learning_rate)),
            *("--reward-weight", weights[0], "--opd-weight", weights[1]),
            *("--opd-loss", "topk-kl"),
            *("--seed", str(plan.seed)),
            *(["--control", plan.control] if plan.control else []),
            HF_HUB_OFFLINE="1",
            OMP_WAIT_POLICY="PASSIVE",  # others need the cores while a thread waits for another
        )


def steps(plan: Plan) -> list[Json]:
    """What the trainer has recorded, one object for each step."""
    file = plan.output / "trainer" / "steps.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def evaluations(plan: Plan) -> dict[int, EvaluationReport]:
    """The evaluations made in training, by the trainer's step."""
    labels = {folder: _LABEL.search(folder.name) for folder in _evaluated(plan, "*")}
    return {int(label[1]): _report(folder) for folder, label in labels.items() if label is not None}


def after(plan: Plan) -> EvaluationReport | None:
    """The evaluation after the last step; None while there is none."""
    found = _evaluated(plan, f"*-{AFTER}")
    return _report(found[0]) if found else None


def _evaluated(plan: Plan, label: str) -> list[Path]:
    return list((plan.output / "evaluations").glob(f"{plan.name}-{label}"))


def _report(folder: Path) -> EvaluationReport:
    report = evaluation_files.read(folder)
    assert report is not None
    return report


@contextmanager
def _kept(output: Path, costs: Costs) -> Iterator[None]:
    """Add what this session of training cost to the file `sessions.jsonl`."""
    started = time.time()
    try:
        yield
    finally:
        session = {"started": started, "ended": time.time(), "cpu_seconds": costs.seconds()}
        with (output / "sessions.jsonl").open("a") as file:
            file.write(f"{json.dumps(session)}\n")
