"""Episodes of flags."""

from pathlib import Path
from typing import Any

import pytest

from episode_operator.api.agent import Agent, AgentKind
from episode_operator.api.episode import EpisodeSpec
from episodectl import specs
from episodectl.errors import CommandError
from tests.unit import task_folders
from trainer_bridge.sources import Unreadable


def built(tmp_path: Path, **changes: Any) -> EpisodeSpec:
    test = tmp_path / "test.sh"
    test.write_text("echo 1 > /logs/verifier/reward.txt\n")
    given: dict[str, Any] = {
        "image": "registry.test/task:1",
        "instruction": "Write a word.",
        "workdir": None,
        "setup": None,
        "solution": None,
        "verifier": [test],
        "agent": Agent(),
        "model": specs.model("http://vllm.models.svc:8000/Qwen/Qwen3-4B"),
    }
    return specs.of_flags(**{**given, **changes}).spec


def test_the_least(tmp_path: Path) -> None:
    spec = built(tmp_path)
    assert spec.model is not None and spec.verifier is not None
    assert (spec.model.endpoint, spec.model.name) == (
        "http://vllm.models.svc:8000",
        "Qwen/Qwen3-4B",
    )
    assert spec.verifier.test_script is not None
    assert spec.active_deadline_seconds > spec.agent.timeout_seconds


def test_pytest_with_files_beside_it(tmp_path: Path) -> None:
    for name in ("test_state.py", "words.txt"):
        (tmp_path / name).write_text(name)
    spec = built(tmp_path, verifier=[tmp_path / "test_state.py", tmp_path / "words.txt"])
    assert spec.verifier is not None and spec.verifier.pytest is not None
    assert spec.verifier.pytest.test == "test_state.py"
    [beside] = spec.verifier.pytest.files
    assert (beside.path, beside.content) == ("/tests/words.txt", "words.txt")


def test_an_oracle(tmp_path: Path) -> None:
    solution = tmp_path / "solve.sh"
    solution.write_text("echo word > out.txt\n")
    oracle = specs.agent(AgentKind.ORACLE, script=None, seconds=60, max_turns=None)
    spec = built(tmp_path, agent=oracle, model=None, solution=solution, workdir="/w")
    assert spec.task.solution is not None and spec.task.workdir == "/w"
    assert (spec.agent.timeout_seconds, spec.agent.tool_timeout_seconds) == (60, 59)
    with pytest.raises(CommandError, match="no agent can see it"):
        built(tmp_path, solution=solution)


def test_a_script(tmp_path: Path) -> None:
    script = tmp_path / "calls.yaml"
    script.write_text("- tool: terminal\n  arguments: {command: ls}\n")
    found = specs.agent(AgentKind.SCRIPTED, script=script, seconds=None, max_turns=3)
    assert found.script[0].arguments == {"command": "ls"} and found.max_turns == 3
    for content, why in (("a: [", "no list of tool calls"), ("- 1", "script.0")):
        script.write_text(content)
        with pytest.raises(CommandError, match=why):
            specs.agent(AgentKind.SCRIPTED, script=script, seconds=None, max_turns=None)
    for kind, path in ((AgentKind.SCRIPTED, None), (AgentKind.MODEL, script)):
        with pytest.raises(CommandError, match="belong together"):
            specs.agent(kind, script=path, seconds=None, max_turns=None)
    with pytest.raises(CommandError, match="cannot be read"):
        specs.agent(AgentKind.SCRIPTED, script=tmp_path / "no", seconds=None, max_turns=None)


def test_all_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"missing --image, --instruction, --verifier, --model"):
        built(tmp_path, image=None, instruction=None, verifier=[], model=None)
    with pytest.raises(Unreadable, match="instruction"):
        built(tmp_path, instruction="x" * 300_000)


@pytest.mark.parametrize("text", ["policy", "http://vllm:8000", "http://vllm:8000/", "ftp://a/b"])
def test_no_model(text: str) -> None:
    with pytest.raises(CommandError, match="is not URL/NAME, such as http"):
        specs.model(text)


def test_sampling() -> None:
    found = specs.model("https://vllm/policy", temperature=0.0, max_tokens=None)
    assert (found.sampling.temperature, found.sampling.max_tokens) == (0.0, 2048)
    with pytest.raises(CommandError, match="temperature"):
        specs.model("https://vllm/policy", temperature=99)


def test_labels_and_names() -> None:
    assert specs.labels(["team=a", "x=b=c", "y="]) == {"team": "a", "x": "b=c", "y": ""}
    for wrong in ("team", "=a", "episodes.dev/run=a"):
        with pytest.raises(CommandError, match="label"):
            specs.labels([wrong])
    for wrong in ("", "Upper", "-a", "a" * 254):
        with pytest.raises(CommandError, match="is no name of an object"):
            specs.checked_name(wrong)
    first = specs.unique("Some/Task_Name!")
    assert first.startswith("some-task-name-") and first != specs.unique("Some/Task_Name!")
    assert specs.checked_name(specs.unique("x" * 100)) and specs.unique("!").startswith("episode-")


def test_task_folders(tmp_path: Path) -> None:
    one = task_folders.harbor(tmp_path / "one")
    assert specs.of_task(one, image=None).name == "one"
    task_folders.harbor(tmp_path / "two")
    with pytest.raises(CommandError, match="has 2 tasks; name one of them: one, two"):
        specs.of_task(tmp_path, image=None)
    with pytest.raises(Unreadable, match="no such file"):
        specs.of_task(tmp_path / "three", image=None)
