"""The tutorial's files are valid, the page shows them as they are, and its command lines parse."""

import re
import shlex
import subprocess
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main
import yaml
from rich.console import Console

from episode_operator.api.agent import Agent, AgentKind, Model
from episode_operator.api.episode import EpisodeSpec
from episodectl import cli as episodectl
from examples.tutorial import trainer
from tests.documented import FENCE
from tests.unit.test_docs import ROOT
from trainer_bridge import cli as trainer_bridge
from trainer_bridge.config import BridgeConfig, load
from trainer_bridge.run.state import RunState
from trainer_bridge.shown import show_status
from trainer_bridge.sinks.atropos import AtroposSink
from trainer_bridge.sources import Options, Task, Unreadable, read_catalog
from trainer_bridge.sources import load as load_tasks

FOLDER = ROOT / "examples" / "tutorial"
TASK = FOLDER / "tasks" / "signal-word"
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
SHOWN = re.compile(r"^\[`(\S+)`\]\(\.\./(\S+)\):\n\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OF_COMMANDS, OF_OUTPUT = "sh", "text"
IMAGE = "debian:12-slim"
"""What the tutorial replaces with an image of the reader's cluster."""
ENDPOINT, MODEL = "http://episodes-vllm.episode-system.svc:8000", "policy"
PROGRAMS = {"episodectl": episodectl.app, "trainer-bridge": trainer_bridge.app}


def commands() -> list[str]:
    """The command lines of the page, each with the lines that go on with it."""
    blocks = [block for language, block in FENCE.findall(PAGE) if language == OF_COMMANDS]
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]


def outputs(first_word: str) -> str:
    """The only output of the page that begins so."""
    found: str
    [found] = [
        block
        for language, block in FENCE.findall(PAGE)
        if language == OF_OUTPUT and block.startswith(first_word)
    ]
    return found


def the_task(folder: Path) -> Task:
    [task] = load_tasks(folder, Options(environ={}))
    if isinstance(task, Unreadable):
        raise task
    return task


def files() -> set[Path]:
    return {path for path in FOLDER.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def test_every_block_of_a_file_is_the_file() -> None:
    shown = SHOWN.findall(PAGE)
    assert {ROOT / path for path, *_ in shown} == files() - {FOLDER / "trainer.py"}
    for path, target, _, block in shown:
        assert path == target
        assert block == (ROOT / path).read_text()
    of_files = [language for _, _, language, _ in shown if language != OF_OUTPUT]
    others = [language for language, _ in FENCE.findall(PAGE)]
    assert of_files == [one for one in others if one not in (OF_COMMANDS, OF_OUTPUT)]


def test_the_first_episode_is_valid() -> None:
    [episode] = yaml.safe_load_all((FOLDER / "episode.yaml").read_text())
    spec = EpisodeSpec.model_validate(episode["spec"])
    assert spec.task.image == IMAGE
    assert spec.model is not None
    assert (spec.model.endpoint, spec.model.name) == (ENDPOINT, MODEL)


@pytest.mark.parametrize("kind", [AgentKind.ORACLE, AgentKind.MODEL])
def test_the_task_becomes_an_episode(kind: AgentKind) -> None:
    task = the_task(TASK)
    model = Model(endpoint=ENDPOINT, name=MODEL) if kind is AgentKind.MODEL else None
    spec = task.build(Agent(kind=kind), prefix="t", model=model).spec
    assert (task.name, task.family, list(task.notes)) == ("signal-word", "files", [])
    assert spec.task.image == IMAGE
    assert spec.task.instruction == (TASK / "instruction.md").read_text()
    assert spec.verifier is not None and spec.verifier.test_script is not None
    assert spec.verifier.test_script.script == (TASK / "tests" / "test.sh").read_text()
    assert (spec.task.solution is not None) is (kind is AgentKind.ORACLE)


@pytest.mark.parametrize(
    ("content", "reward"),
    [("thunder\n", "1"), ("thunder storm\n", "0.5"), ("thunderous\n", "0"), (None, "0")],
)
def test_the_test_writes_a_reward_on_every_path(
    tmp_path: Path, content: str | None, reward: str
) -> None:
    if content is not None:
        (tmp_path / "signal.txt").write_text(content)
    assert rewarded(tmp_path) == reward


def test_the_solution_passes(tmp_path: Path) -> None:
    ran_in(tmp_path, TASK / "solution" / "solve.sh")
    assert rewarded(tmp_path) == "1"


def rewarded(workspace: Path) -> str:
    ran_in(workspace, TASK / "tests" / "test.sh")
    return (workspace / "reward.txt").read_text().strip()


def ran_in(workspace: Path, script: Path) -> None:
    """Run a script of the task with the sandbox's two folders in one of this machine."""
    text = script.read_text().replace("/workspace", str(workspace))
    text = text.replace("/logs/verifier", str(workspace))
    subprocess.run(["sh", "-c", text], check=True, capture_output=True)


def test_the_bridge_reads_its_configuration_and_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(FOLDER / "bridge.yaml")
    assert isinstance(config.make_sink("uid"), AtroposSink)
    assert config.tasks.image == IMAGE
    assert config.episode.model is not None
    assert (config.episode.model.endpoint, config.episode.model.name) == (ENDPOINT, MODEL)
    monkeypatch.chdir(ROOT)
    catalog = read_catalog(config.tasks)
    assert [task.name for task in catalog.train] == ["signal-word"]
    assert (catalog.evaluation, catalog.unreadable) == ((), ())


def test_the_values_of_the_chart(tmp_path: Path) -> None:
    values = yaml.safe_load((FOLDER / "values.yaml").read_text())
    chart = ROOT / "charts" / "episode-operator" / "values.yaml"
    assert not unknown(values, yaml.safe_load(chart.read_text()))
    raw = values["bridge"]["config"]
    raw["sink"]["url"] = "http://tutorial-atropos.tutorial.svc:8000"  # as the chart does
    config = BridgeConfig.model_validate(raw)
    mine = load(FOLDER / "bridge.yaml")
    assert (config.episode, config.env) == (mine.episode, mine.env)
    [mount] = values["bridge"]["extraVolumeMounts"]
    assert str(config.tasks.path) == mount["mountPath"]
    [volume] = values["bridge"]["extraVolumes"]
    mounted(tmp_path, volume["configMap"]["items"])
    read = the_task(tmp_path)
    assert (read.name, read.family) == ("signal-word", "files")
    model = Model(endpoint=ENDPOINT, name=MODEL)
    specs = [task.build(Agent(), prefix="t", model=model).spec for task in (read, the_task(TASK))]
    assert specs[0] == specs[1]


def unknown(given: dict[str, Any], known: dict[str, Any], *, at: str = "") -> list[str]:
    """Values that the chart does not have; what is below `config` is the bridge's."""
    found = []
    for name, value in given.items():
        if name not in known:
            found.append(f"{at}{name}")
        elif isinstance(value, dict) and name != "config":
            found += unknown(value, known[name], at=f"{at}{name}.")
    return found


def mounted(folder: Path, items: list[dict[str, str]]) -> None:
    """The ConfigMap that the page creates, as the kubelet mounts it: behind links."""
    [line] = [line for line in commands() if line.startswith("kubectl create configmap")]
    sources = [Path(path) for path in re.findall(r"--from-file=(\S+)", line)]
    assert sorted(source.name for source in sources) == sorted(item["key"] for item in items)
    content = {source.name: (ROOT / source).read_text() for source in sources}
    data = folder / "..2026_11_30"
    for item in items:
        path = data / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content[item["key"]])
    (folder / "..data").symlink_to(data.name)
    for top in {Path(item["path"]).parts[0] for item in items}:
        (folder / top).symlink_to(Path("..data") / top)


def test_the_image_of_atropos_is_that_of_operations() -> None:
    operations = (ROOT / "docs" / "operations.md").read_text()
    assert f"```\n{(FOLDER / 'atropos.Containerfile').read_text()}```" in operations


@pytest.mark.parametrize("program", PROGRAMS)
def test_command_lines_parse(program: str) -> None:
    group = typer.main.get_group(PROGRAMS[program])
    lines = [line for line in commands() if line.startswith(f"{program} ")]
    assert lines
    for line in lines:
        _, name, *arguments = shlex.split(line)
        group.commands[name].make_context(name, arguments)


def test_commands_are_a_shell_script() -> None:
    script = "\n".join(commands())
    done = subprocess.run(["sh", "-n"], input=script, text=True, check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_commands_name_files_that_exist() -> None:
    named = re.findall(r"\b(?:examples|charts|requirements)/[\w./-]+", "\n".join(commands()))
    assert {Path(path) for path in named} >= {
        path.relative_to(ROOT)
        for path in (FOLDER / "episode.yaml", FOLDER / "bridge.yaml", FOLDER / "values.yaml", TASK)
    }
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_file_that_is_changed_with_sed_has_the_image_once() -> None:
    lines = [line for line in commands() if line.startswith("sed ")]
    assert len(lines) == 2
    for line in lines:
        _, expression, path, *_ = shlex.split(line)
        assert expression == f"s|{IMAGE}|$TASK_IMAGE|"
        assert (ROOT / path).read_text().count(IMAGE) == 1


def test_the_output_of_the_trainer() -> None:
    shown = outputs("step 0: ")
    rows = re.findall(r"reward (\S+), .* sampled (\d+) of (\d+)", shown)
    masks = [[1] * int(sampled) + [-100] * (int(all_) - int(sampled)) for _, sampled, all_ in rows]
    group = {"scores": [float(reward) for reward, *_ in rows], "masks": masks}
    assert "\n".join(trainer.described(0, [group])) == shown.rstrip()


def test_equal_rewards_have_no_advantage() -> None:
    assert trainer.advantages([0.5, 0.5]) == [0.0, 0.0]


def test_the_output_of_status() -> None:
    state = RunState(
        uid="u", next_group=5, delivered=2, dropped={"EqualScores": 2, "RunEnded": 1}, step=2
    )
    out = StringIO()
    show_status(Console(file=out, width=80), "tutorial", state)
    assert out.getvalue() == outputs("┏")
