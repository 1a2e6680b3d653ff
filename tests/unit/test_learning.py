"""The learning proof's own parts: its configuration, its lessons, and what it counts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from episode_operator.api.distillation import HintPlacement
from episode_operator.distill.prompts import with_hint
from examples.learning import plots, warm_start
from examples.learning.costs import Costs
from examples.learning.judge import hint_text
from examples.learning.plan import FAMILIES, Places, Plan, Signal, bridge_config
from examples.learning.record import families, shares
from examples.learning.run import after, evaluations
from trainer_bridge.config import BridgeConfig
from trainer_bridge.sources.builtin.terminal import tasks

PLACES = Places(
    model="http://model.test:8000",
    model_name="policy",
    judge="http://judge.test:8000",
    atropos="http://atropos.test:8000",
    image="task",
)


def plan(output: Path, signal: Signal = "reward") -> Plan:
    return Plan(name="learn-test", output=output, seed=3, signal=signal)


@pytest.mark.parametrize("signal", ["reward", "hints", "both"])
def test_the_bridge_takes_the_configuration(tmp_path: Path, signal: Signal) -> None:
    config = BridgeConfig.model_validate(bridge_config(plan(tmp_path, signal), PLACES, run="x"))
    assert (config.episode.distillation is None) == (signal == "reward")
    assert config.tasks.seed == 3


def test_lessons_teach_to_follow_a_hint_as_a_teacher_sees_it() -> None:
    lessons = warm_start.lessons()
    trained = {
        task.command: task
        for family in FAMILIES
        for task in tasks("train", seed=warm_start.SEED, families=[family])
    }
    hinted = 0
    for lesson in lessons:
        task = trained[lesson["command"]]
        message = {"role": "user", "content": task.instruction}
        (seen,) = with_hint([message], hint_text(task.command), HintPlacement.LAST_USER_MESSAGE)
        assert lesson["instruction"] in {task.instruction, seen["content"]}
        hinted += lesson["instruction"] == seen["content"]
    assert 0.15 < hinted / len(lessons) < 0.35


def test_every_step_of_the_fine_tune_teaches_all_there_is() -> None:
    lessons, size = warm_start.lessons(), sum(warm_start.ROUND.values())
    assert len(lessons) == warm_start.STEPS * size
    for start in range(0, len(lessons), size):
        taught = [lesson["command"] for lesson in lessons[start : start + size]]
        for begin, count in warm_start.ROUND.items():
            assert sum(command.startswith(begin) for command in taught) == count


def test_lessons_are_always_the_same() -> None:
    assert warm_start.lessons() == warm_start.lessons()


def report(rate: float) -> dict[str, object]:
    values = {"eval/pass_rate": rate, "eval/write-1/pass_rate": 1.0, "eval/fix-1/pass_rate": 0.25}
    return {"report": {"values": values, "tasks": []}}


def test_evaluations_are_found_by_the_step_of_the_trainer(tmp_path: Path) -> None:
    made = plan(tmp_path)
    for name, rate in (
        ("learn-test-abc-e1s0", 0.2),
        ("learn-test-abc-e2s10", 0.5),
        ("learn-test-after-def-after", 0.9),
    ):
        folder = tmp_path / "evaluations" / name
        folder.mkdir(parents=True)
        (folder / "metrics.json").write_text(json.dumps(report(rate)))
    found = {step: one.values["eval/pass_rate"] for step, one in evaluations(made).items()}
    assert found == {0: 0.2, 10: 0.5}
    ended = after(made)
    assert ended is not None
    assert ended.values["eval/pass_rate"] == 0.9
    assert families(ended) == {"write-1": 1.0, "fix-1": 0.25}


def test_a_run_without_evaluations_has_none(tmp_path: Path) -> None:
    assert evaluations(plan(tmp_path)) == {}
    assert after(plan(tmp_path)) is None


def test_costs_are_those_of_the_processes() -> None:
    burn = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\n"
    process = subprocess.Popen([sys.executable, "-c", f"{burn}input()"], stdin=subprocess.PIPE)
    try:
        costs = Costs({"trainer": process.pid})
        costs.look()
        while (found := costs.seconds())["trainer"] < 0.3:
            assert process.poll() is None
    finally:
        process.communicate(b"\n")
    assert found["trainer"] < 2
    assert shares({"a": 1.0, "b": 3.0}) == {"a": 0.25, "b": 0.75}


def record() -> dict[str, object]:
    seconds = {"wait": 60.0, "compute": 30.0, "optimizer": 1.0, "save": 5.0, "push": 2.0}
    step = {
        "reward_mean": 0.5,
        "kl": 1e-3,
        "ratio_log_max": 0.1,
        "seconds": {**seconds, "pause": 1},
    }
    batch = {"turns": 2.1, "staleness": {"mean": 0.7, "max": 1}}
    return {
        "evaluations": {"0": {"pass_rate": 0.2}, "2": {"pass_rate": 0.9}},
        "steps": [step, step],
        "episodes": {"batches": [batch, batch]},
        "cpu_shares": {"model": 0.6, "bridge": 0.4},
    }


def test_records_of_several_runs_become_one_picture(tmp_path: Path) -> None:
    files = []
    for name in ("reward-s0", "hints-s0"):
        file = tmp_path / name / "record.json"
        file.parent.mkdir()
        file.write_text(json.dumps(record()))
        files.append(str(file))
    plots.main(str(tmp_path / "runs.png"), *files)
    assert (tmp_path / "runs.png").read_bytes().startswith(b"\x89PNG")
