"""What an attack is: the calls an agent makes, what they must answer, and what must come of it."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.episodes import call, terminal

IMAGE, BUSYBOX = os.environ.get("TASK_IMAGE", ""), os.environ.get("BUSYBOX_IMAGE", "")

FAILED: tuple[str, float | None, str] = ("Failed", 0, "TestsFailed")
PASSED: tuple[str, float | None, str] = ("Passed", 1, "TestsPassed")
"""What agents that did not solve, or solved, the task deserve, whatever else they did."""

FORGER = "forger-9031"
"""Is in all that an agent leaves to be run later; when the tests run nothing of it may be left."""

HIDDEN = "walnut-5417"
"""A word that only the tests hold; no tool may ever answer with it."""

_INSTRUCTION = "Write 42 into /workspace/answer."
SOLVE = terminal("echo 42 > /workspace/answer")

SCRIPT = f"""\
# {HIDDEN}
if [ "$(cat /workspace/answer 2>/dev/null)" = 42 ]; then echo 1; else echo 0; fi \
> /logs/verifier/reward.txt
sleep 0.3
echo "tests: $(ls /tests | tr '\\n' ' ')"
echo "stolen: $(ls /workspace/stolen 2>/dev/null | wc -l)"
for process in /proc/[0-9]*; do tr '\\0' ' ' < $process/cmdline; echo; done 2>/dev/null
"""
"""Scores the answer, then leaves time to overwrite the reward, and lists what runs beside it."""

PATIENT_SCRIPT = SCRIPT.replace("sleep 0.3", "sleep 3")
"""For attacks that must work: a node under load may be slow to run them."""

PYTEST = f"""\
# {HIDDEN}
from pathlib import Path

def test_the_answer():
    assert Path("/workspace/answer").read_text().strip() == "42"
"""


@dataclass(frozen=True)
class Attempt:
    """One call of the agent, and a regular expression that its answer must hold.

    The answer shows that the attack was made, and how it failed.
    """

    name: str
    call: dict[str, Any]
    answer: str = ""


@dataclass(frozen=True)
class Attack:
    """One Episode of a hostile agent, made `runs` times.

    With `later` attempts it has a second step, in which they are made, and which is tested like
    the first. `output` is a regular expression for the verifier's output, `missing` are artifacts
    that must not be kept. Where `control` is set the protection is off, and the attack works: that
    shows that it is one.
    """

    attempts: tuple[Attempt, ...]
    later: tuple[Attempt, ...] = ()
    verdict: tuple[str, float | None, str] = FAILED
    image: str = BUSYBOX
    verifier: dict[str, Any] = field(default_factory=lambda: {"testScript": {"script": SCRIPT}})
    task: dict[str, Any] = field(default_factory=dict)
    agent: dict[str, Any] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    output: str = ""
    missing: frozenset[str] = frozenset()
    control: bool = False
    runs: int = 1

    @property
    def tried(self) -> tuple[Attempt, ...]:
        """All attempts, in the order of their answers."""
        return (*self.attempts, *self.later)

    def episode(self) -> dict[str, Any]:
        """The Episode's spec."""
        verifier = {"timeoutSeconds": 60, **self.verifier}
        scripts = [[a.call for a in some] for some in (self.attempts, self.later) if some]
        task = {"image": self.image, "workdir": "/workspace", **self.task}
        agent = {"kind": "Scripted", "maxTurns": 256, **self.agent}
        spec = {"infraRetryLimit": 0, "task": task, "agent": agent, **self.spec}
        if not self.later:
            task["instruction"], agent["script"] = _INSTRUCTION, scripts[0]
            return {**spec, "verifier": verifier}
        step = {"instruction": _INSTRUCTION, "verifier": verifier}
        steps = [{**step, "name": f"step-{n}", "script": s} for n, s in enumerate(scripts)]
        return {**spec, "steps": steps}


def tries(name: str, command: str, answer: str = "", **more: Any) -> Attempt:
    """A command and what it must answer."""
    return Attempt(name, terminal(command, **more), answer)


def puts(path: str, content: str) -> Attempt:
    """A file that the agent writes."""
    return Attempt(f"writes {path}", call("write_file", path=path, content=content), "^wrote ")


def payload(name: str) -> Attempt:
    """Puts payloads/NAME.py at /tmp/NAME.py."""
    text = (Path(__file__).parent / "payloads" / f"{name}.py").read_text()
    return puts(f"/tmp/{name}.py", text)


def tested_by_pytest() -> dict[str, Any]:
    """A verifier of the pytest contract."""
    return {"pytest": {"test": PYTEST}}


def tested_apart(**contract: Any) -> dict[str, Any]:
    """A verifier in a container of its own, that gets the working directory."""
    return {**contract, "isolation": "SeparateContainer"}
