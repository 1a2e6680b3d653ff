"""Harbor tasks in steps."""

from pathlib import Path
from typing import Any

import pytest

from episode_operator.api.agent import Agent, AgentKind
from episode_operator.api.episode import EpisodeSpec
from tests.unit import task_folders
from tests.unit.task_folders import PASS
from tests.unit.test_sources_harbor import DOCKER, build, spec, unpacked, why

ORACLE = Agent(kind=AgentKind.ORACLE, timeout_seconds=900)

FILES = {
    "steps/one/instruction.md": "First.\n",
    "steps/one/tests/test.sh": PASS,
    "steps/one/solution/solve.sh": "#!/bin/sh\ntouch one\n",
    "steps/two/instruction.md": "# canary\nSecond.\n",
}
STEPS = f"""
multi_step_reward_strategy = "final"
{DOCKER}
[agent]
timeout_sec = 100
[verifier]
timeout_sec = 50
env = {{A = "task", B = "task"}}
[[steps]]
name = "one"
min_reward = 0.5
agent = {{timeout_sec = 20}}
verifier = {{env = {{B = "step"}}, timeout_sec = 30}}
[[steps]]
name = "two"
min_reward = {{style = 1.0}}
"""


def folder(path: Path, toml: str = STEPS, **files: Any) -> Path:
    return task_folders.harbor(path, toml, {"instruction.md": None, **FILES, **files})


def test_each_step_has_its_own_part(tmp_path: Path) -> None:
    made = spec(folder(tmp_path))
    one, two = made.steps
    assert (one.name, two.name) == ("one", "two")
    assert (one.instruction, two.instruction) == ("First.\n", "Second.\n")
    assert (one.agent_timeout_seconds, two.agent_timeout_seconds) == (20, 100)
    assert one.verifier.timeout_seconds == 30
    assert two.verifier.timeout_seconds == 600, "a step's default beats the task's table"
    assert {v.name: v.value for v in one.verifier.env} == {"A": "task", "B": "step"}
    assert (one.min_reward, two.min_reward) == ({"reward": 0.5}, {"style": 1.0})
    assert made.step_reward == "Final"
    assert made.verifier is None and made.task.instruction is None and made.task.solution is None
    assert made.agent.timeout_seconds == 100


def test_a_step_without_tests_or_solution_has_the_tasks(tmp_path: Path) -> None:
    made = build(folder(tmp_path))
    one, two = made.spec.steps
    assert one.solution is not None and two.solution is not None
    [own], [shared] = one.solution.archives, two.solution.archives
    assert unpacked(made, own) == {"/solution/solve.sh": b"#!/bin/sh\ntouch one\n"}
    assert unpacked(made, shared) == {"/solution/solve.sh": b"#!/bin/sh\necho word > out.txt\n"}
    assert two.verifier.test_script is not None
    assert two.verifier.test_script.script == PASS


def test_a_steps_tests_lie_over_the_tasks(tmp_path: Path) -> None:
    made = build(
        folder(
            tmp_path,
            **{"tests/shared": "task", "tests/both": "task", "steps/one/tests/both": "step"},
        )
    )
    verifier = made.spec.steps[0].verifier
    assert verifier.test_script is not None
    [tests] = verifier.test_script.archives
    assert unpacked(made, tests) == {"/tests/shared": b"task", "/tests/both": b"step"}


def test_workdir_files_and_setup(tmp_path: Path) -> None:
    made = build(
        folder(
            tmp_path,
            **{
                "steps/one/workdir/setup.sh": "touch ready\r\n",
                "steps/one/workdir/data.txt": "x",
                "steps/two/workdir/data.txt": "y",
            },
        )
    )
    one, two = made.spec.steps
    [files] = one.archives
    assert unpacked(made, files)[f"{files.path}/setup.sh"] == b"touch ready\n"
    assert one.setup is not None and two.setup is not None
    assert one.setup.script.splitlines()[-1] == 'bash "$PWD/setup.sh"'
    assert "setup.sh" not in two.setup.script


def test_the_whole_is_within_the_deadline(tmp_path: Path) -> None:
    made = spec(folder(tmp_path))
    assert made.active_deadline_seconds >= 20 + 30 + 100 + 600


@pytest.mark.parametrize(
    ("toml", "files", "reason"),
    [
        ("agent = {user = 5}", {}, "steps with different agent.user"),
        ("healthcheck = {command = 'true'}", {}, None),
        ("artifacts = ['/x']", {}, None),
        ("", {"steps/two/instruction.md": ""}, "steps/two/instruction.md is empty"),
        ("", {"steps/two/trajectory.json": "{}"}, "trajectory.json: an agent cannot be given"),
        ("agent = {network_mode = 'no-network'}", {}, "agent, verifier and steps have different"),
    ],
)
def test_what_a_step_may_ask_for(
    tmp_path: Path, toml: str, files: dict[str, str], reason: str | None
) -> None:
    made = folder(tmp_path, f"{STEPS}{toml}\n", **files)
    if reason is None:
        assert isinstance(spec(made), EpisodeSpec)
    else:
        assert why(made).startswith(reason)


def test_a_setup_as_the_agents_user_is_refused(tmp_path: Path) -> None:
    toml = STEPS.replace("timeout_sec = 100", "timeout_sec = 100\nuser = 'dev'")
    made = folder(tmp_path, toml, **{"steps/one/workdir/setup.sh": "true\n"})
    assert why(made).startswith("step one: its setup is to run as agent.user, dev")


@pytest.mark.parametrize("name", ["../x", "a/b", ".", "-a", "a b"])
def test_step_names_that_are_no_names(tmp_path: Path, name: str) -> None:
    made = folder(tmp_path, STEPS.replace('name = "two"', f'name = "{name}"'))
    assert why(made).startswith(f"step {name!r}: a name has")
