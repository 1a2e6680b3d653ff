"""Episodes with one right answer each, that also tell whether anything in them ran twice.

Each turn of the agent appends its number to a file, and so does the verifier. The verifier prints
both: a number that is there twice is a command that ran twice in one pod.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.chaos.model import ModelServer
from tests.cluster.episodes import call, scripted, terminal
from tests.fakes import chat
from tests.fakes.vllm_server import MODEL

DID = re.compile(r"did: ([0-9 ]*)")
RETRY_LIMIT = 2
_RIGHT, _WRONG = "walnut", "pecan"
_PYTHON_DID = """\
from pathlib import Path
with open("/tmp/verified", "a") as file:
    file.write("9999\\n")
did = [*Path("did").read_text().split(), *Path("/tmp/verified").read_text().split()]
"""
_SHELL_DID = "echo 9999 >> /tmp/verified; echo did: $(cat did /tmp/verified)"


@dataclass(frozen=True)
class Images:
    """The task images: `python` has pytest too, `busybox` is quick."""

    python: str
    busybox: str


@dataclass(frozen=True)
class Known:
    """An Episode's spec, its right answer, and how often each number must be in its output."""

    kind: str
    spec: dict[str, Any]
    verdict: str
    reward: float


Kind = Callable[[Random, Images, ModelServer], Known]


def doubled(verifier_output: str) -> bool:
    """Whether a turn or the verifier ran twice in the pod that was verified."""
    lists = [found.split() for found in DID.findall(verifier_output)]
    return any(len(set(numbers)) < len(numbers) for numbers in lists)


def _answer(random: Random) -> tuple[str, bool]:
    passes = random.random() < 0.6
    return (_RIGHT if passes else _WRONG), passes


def _turns(random: Random, answer: str, count: int) -> list[dict[str, Any]]:
    """Calls of very different lengths; the last one writes the answer."""
    calls = [
        terminal(f"echo {turn} >> did; sleep {random.choice(['0', '0', '0.3', '1.5'])}")
        for turn in range(count - 1)
    ]
    return [*calls, call("write_file", path="answer", content=f"{answer}\n")]


def _shell_test(seconds: float) -> str:
    return (
        f"{_SHELL_DID}; sleep {seconds}; grep -q {_RIGHT} answer && echo 1 > "
        "/logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt"
    )


def _verdict(passes: bool) -> tuple[str, float]:
    return ("Passed", 1.0) if passes else ("Failed", 0.0)


def _pause(random: Random) -> float:
    """How long a verifier works, in seconds: long enough to be met by a fault."""
    return random.choice([0.5, 1.0, 2.0])


def test_script(random: Random, images: Images, _server: ModelServer) -> Known:
    """A test.sh in a small image."""
    answer, passes = _answer(random)
    calls = _turns(random, answer, random.randint(2, 9))
    spec = scripted(images.busybox, *calls, test=_shell_test(_pause(random)))
    return Known("testScript", spec, *_verdict(passes))


def separate_container(random: Random, images: Images, _server: ModelServer) -> Known:
    """The same, verified in a container of its own."""
    answer, passes = _answer(random)
    calls = _turns(random, answer, random.randint(2, 5))
    test = {"script": _shell_test(_pause(random))}
    verifier = {"testScript": test, "timeoutSeconds": 60, "isolation": "SeparateContainer"}
    spec = scripted(images.busybox, *calls, verifier=verifier)
    return Known("separate", spec, *_verdict(passes))


def pytest_file(random: Random, images: Images, _server: ModelServer) -> Known:
    """Two tests: one of what ran, one of the answer."""
    answer, passes = _answer(random)
    calls = _turns(random, answer, random.randint(2, 6))
    test = (
        f"import time\n{_PYTHON_DID}time.sleep({_pause(random)})\n"
        "def test_ran_once():\n"
        "    assert len(set(did)) == len(did), 'did: ' + ' '.join(did)\n"
        f"def test_answer():\n    assert Path('answer').read_text() == '{_RIGHT}\\n'\n"
    )
    verifier = {"pytest": {"test": test}, "timeoutSeconds": 60}
    return Known("pytest", scripted(images.python, *calls, verifier=verifier), *_verdict(passes))


def test_code(random: Random, images: Images, _server: ModelServer) -> Known:
    """Three turns with terminal and write_file, so that only correctness is less than 1."""
    answer, passes = _answer(random)
    calls = _turns(random, answer, 3)
    code = (
        f"{_PYTHON_DID}print('did:', *did, flush=True)\n"
        f"assert Path('answer').read_text() == '{_RIGHT}\\n'\nprint('passed')\n"
    )
    verifier = {"testCode": {"code": code}, "timeoutSeconds": 60}
    spec = scripted(images.python, *calls, verifier=verifier)
    verdict, _ = _verdict(passes)
    return Known("testCode", spec, verdict, 1.0 if passes else 0.44)


def steps(random: Random, images: Images, _server: ModelServer) -> Known:
    """Two steps with a reward of their own each; the Episode's is their mean."""
    spec = scripted(images.busybox)
    for part in ("agent", "verifier"):
        del spec[part]
    del spec["task"]["instruction"]
    answers = [_answer(random) for _ in range(2)]
    spec["agent"] = {"kind": "Scripted"}
    spec["steps"] = [
        {
            "name": f"step-{number}",
            "instruction": "do it",
            "script": [
                terminal(f"echo {number} >> did; sleep {_pause(random)}; echo {answer} > answer")
            ],
            "verifier": {
                "testScript": {"script": _shell_test(0.3).replace("9999", f"999{number}")},
                "timeoutSeconds": 60,
            },
        }
        for number, (answer, _) in enumerate(answers)
    ]
    reward = sum(passes for _, passes in answers) / 2
    return Known("steps", spec, "Passed" if reward == 1 else "Failed", reward)


def model(random: Random, images: Images, server: ModelServer) -> Known:
    """A model's turns, as the scripted server says them."""
    answer, passes = _answer(random)
    count = random.randint(2, 6)
    commands = [f"echo {turn} >> did; sleep 0.5" for turn in range(count)]
    texts = [
        chat.hermes("terminal", command=command)
        for command in [*commands, f"echo {answer} > answer"]
    ]
    spec = scripted(
        images.busybox,
        test=_shell_test(_pause(random)),
        agent={"kind": "Model", "toolsets": ["terminal"]},
        model={"endpoint": server.url, "name": MODEL},
    )
    spec["task"]["instruction"] = server.instruction([*texts, "Done."])
    return Known("model", spec, *_verdict(passes))


KINDS: tuple[Kind, ...] = (
    test_script,
    pytest_file,
    model,
    separate_container,
    test_code,
    steps,
    test_script,
)
"""Dealt in turn, so that even few Episodes are of every kind."""


def draw(kind: Kind, random: Random, images: Images, server: ModelServer) -> Known:
    """One Episode of a kind, with an image's Python where the verifier needs it."""
    known = kind(random, images, server)
    known.spec["infraRetryLimit"] = RETRY_LIMIT
    return known
