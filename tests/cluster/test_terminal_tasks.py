"""The built-in terminal tasks in real sandboxes: the right command passes, doing nothing fails."""

from typing import Any

from episode_operator.api.agent import Agent, AgentKind
from tests.cluster.episodes import Episodes, terminal
from trainer_bridge.sources import Task, TaskSettings, manifest, read_catalog
from trainer_bridge.sources.builtin.terminal import FAMILIES

ORACLE = Agent(kind=AgentKind.ORACLE)
IDLE = Agent.model_validate({"kind": "Scripted", "script": [terminal("true")]})
LEFT_ALONE = ("write-1", "transform-2", "count-3", "fix-2")
"""One family of each kind, and of each grade."""


async def test_the_command_passes_and_doing_nothing_fails(episodes: Episodes, image: str) -> None:
    settings = TaskSettings(
        builtin="terminal", image=image, limit=len(FAMILIES), eval_split_ratio=0
    )
    tasks = {task.family: task for task in read_catalog(settings).train}
    assert set(tasks) == set(FAMILIES)
    specs = {f"{family}-oracle": spec(tasks[family], ORACLE) for family in FAMILIES}
    specs |= {f"{family}-idle": spec(tasks[family], IDLE) for family in LEFT_ALONE}
    ended = await episodes.run_all(specs)
    passed, failed = ("Passed", 1, "TestsPassed"), ("Failed", 0, "TestsFailed")
    assert {name: one.verdict for name, one in ended.items()} == {
        name: passed if name.endswith("oracle") else failed for name in specs
    }, {name: one.result.spec.verifier_output for name, one in ended.items()}


def spec(task: Task, agent: Agent) -> dict[str, Any]:
    """The Episode of a task as the bridge makes it."""
    return manifest(task.name, task.build(agent, prefix=task.name).spec)["spec"]  # type: ignore[no-any-return]
