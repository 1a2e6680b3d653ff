"""Images without anything: each thing works, or a typed reason names what is missing."""

import base64
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from episode_operator.kube.client import CONFIG_MAPS
from tests.cluster.episodes import PASSING_TEST, Ended, Episodes, call, terminal
from tests.testbed import stack

SH = {"testScript": {"script": PASSING_TEST}}
PYTEST = {
    "pytest": {"test": "def test_it():\n    assert open('note').read() == 'one\\nthree\\n'\n"}
}
CODE = {"testCode": {"code": "from solution import x\nassert x == 1\nprint('passed')\n"}}
ORACLE = {"kind": "Oracle"}

PASSED = ("Passed", "TestsPassed")
NO_PYTHON = 'the image has no Python on its PATH: python3: not found in PATH "/'
NO_PATH = 'the image has no Python on its PATH: python3: not found in PATH ""; python: '
NO_SHELL = "error: the image has no shell"


def none(reason: str) -> tuple[str, str]:
    """No verdict, for a reason."""
    return ("NoVerdict", reason)


def script(text: str) -> dict[str, Any]:
    """A verifier of the testScript contract."""
    return {"testScript": {"script": text}}


Calls = Sequence[tuple[dict[str, Any], str]]
"""Calls of the agent, each with a pattern that its answer must hold."""

FILES: Calls = (
    (call("write_file", path="note", content="one\ntwo\n"), "^wrote 8 bytes to note$"),
    (call("read_file", path="note"), r"^one\ntwo\n$"),
    (call("patch", path="note", old_string="two", new_string="three"), "^patched note$"),
)
SEARCH: Calls = (
    (call("search_files", pattern="^thr+ee"), r"^(\./)?note:2:three$"),
    (call("search_files", pattern="n?te", target="files"), r"^\./note$"),
)
NO_SEARCH: Calls = (
    (call("search_files", pattern="x"), "^error: search_files needs the image's own grep: grep: "),
    (
        call("search_files", pattern="x", target="files"),
        "^error: search_files needs the image's own find: find: not found in PATH",
    ),
)
WITHOUT_A_SHELL: Calls = (
    (terminal("echo ok"), NO_SHELL),
    (terminal("sleep 60", background=True), NO_SHELL),
    (call("process", action="list"), "^no processes$"),
    *FILES,
    *NO_SEARCH,
)


def shell(programs: str = "") -> Calls:
    """What a shell is for; `programs` is in front of the name of each program."""
    return (
        (terminal(f"echo ok > out; {programs}cat out"), "^ok\n$"),
        (terminal(f"export A=kept; {programs}sleep 60", background=True), "as process p1-0$"),
        (call("process", action="poll", process="p1-0"), "^p1-0: running"),
        (call("process", action="kill", process="p1-0"), "^p1-0: exited with code 137"),
        (terminal("export A=kept; false"), r"^\[exit code 1\]$"),
        (terminal("echo $A"), "^kept\n$"),
        *FILES,
    )


@dataclass(frozen=True)
class Case:
    """An Episode on an image of ours, how it must end, and what its message must hold."""

    image: str
    end: tuple[str, str] = PASSED
    message: str = ""
    calls: Calls = ((call("process", action="list"), "^no processes$"),)
    task: dict[str, Any] = field(default_factory=dict)
    agent: dict[str, Any] = field(default_factory=dict)
    verifier: dict[str, Any] = field(default_factory=lambda: SH)


ODD = "/wörk dir/日本"
SOLUTION: Calls = ((call("write_file", path="solution.py", content="x = 1\n"), "^wrote 6 bytes"),)
SOLVE = {"solution": {"script": "echo solved > note"}}
SOLVED = script("read word < note; test $word = solved && " + PASSING_TEST)

CASES: dict[str, Case] = {
    # Nothing in it.
    "scratch-tools": Case(
        "task-scratch", none("VerifierError"), "/bin/sh: no such file", WITHOUT_A_SHELL
    ),
    "scratch-bash-script": Case(
        "task-scratch",
        none("VerifierError"),
        "/tests/test.sh: it needs /bin/bash, which the image does not have",
        verifier=script("#!/bin/bash\ntrue"),
    ),
    "scratch-pytest": Case(
        "task-scratch", none("PythonMissing"), NO_PYTHON, FILES, verifier=PYTEST
    ),
    "scratch-code": Case("task-scratch", none("PythonMissing"), NO_PYTHON, verifier=CODE),
    "scratch-oracle": Case(
        "task-scratch",
        none("InvalidTask"),
        "the image has no shell: no bash, no sh",
        task=SOLVE,
        agent=ORACLE,
    ),
    "scratch-setup": Case(
        "task-scratch",
        none("SetupFailed"),
        "the image has no shell: no sh",
        task={"setup": {"script": "true"}},
    ),
    "scratch-agent-user": Case(
        "task-scratch",
        none("InvalidTask"),
        'agent.user: user "nobody" is not in the image\'s /etc/passwd',
        agent={"user": "nobody"},
    ),
    "scratch-verified-elsewhere": Case(
        "task-scratch",
        calls=FILES,
        verifier={**PYTEST, "isolation": "SeparateContainer", "image": "task-python"},
    ),
    # Python, and neither a shell nor root.
    "distroless-tools": Case(
        "task-distroless", none("VerifierError"), "/bin/sh: no such file", WITHOUT_A_SHELL
    ),
    "distroless-pytest": Case("task-distroless", calls=FILES, verifier=PYTEST),
    "distroless-code": Case("task-distroless", calls=SOLUTION, verifier=CODE),
    "distroless-oracle": Case(
        "task-distroless",
        none("InvalidTask"),
        "the image has no shell: no bash, no sh",
        task=SOLVE,
        agent=ORACLE,
    ),
    # musl, and no glibc.
    "musl-tools": Case(
        "task-musl",
        calls=(
            *shell(),
            *SEARCH,
            (terminal("ninja --version"), r"^1\.\d+"),
            (terminal("ninja-glibc --version"), "not found"),
        ),
    ),
    "musl-oracle": Case("task-musl", task=SOLVE, agent=ORACLE, verifier=SOLVED),
    "musl-pytest": Case("task-musl", none("PythonMissing"), NO_PYTHON, verifier=PYTEST),
    "musl-interpreter-of-glibc": Case(
        "task-musl",
        none("VerifierError"),
        r"/tests/test.sh: it needs /lib\S*/ld-linux\S+, which the image does not have",
        verifier=script("#!/opt/tool/bin/ninja-glibc\n"),
    ),
    # Not root, and hardly anything to write to.
    "user-tools": Case(
        "task-user",
        calls=(
            (terminal("id -u"), "^1000\n$"),
            (terminal("echo x > out"), "[Pp]ermission denied"),
            (call("write_file", path="out", content="x"), "^error: .*permission denied$"),
            (call("write_file", path="/own/a/b", content="x"), "^wrote 1 bytes to /own/a/b$"),
            (call("read_file", path="/sealed/file"), "^old\n$"),
            (
                call("patch", path="/sealed/file", old_string="old", new_string="new"),
                "^error: /sealed/file: permission denied$",
            ),
            (call("read_file", path="/closed/x"), "^error: /closed/x: permission denied$"),
            (call("search_files", pattern="x", path="/own"), "^/own/a/b:1:x$"),
            (terminal("cd"), "can't cd to /home/nobody-made-it"),
            (terminal("cd /own; sleep 60", background=True), "as process p9-0$"),
            (call("process", action="kill", process="p9-0"), "^p9-0: exited with code 137"),
        ),
        verifier=script("test $(id -u) = 1000 && test -f /own/a/b && " + PASSING_TEST),
    ),
    "user-workdir-of-its-own": Case(
        "task-user", calls=(*shell(), *SEARCH), task={"workdir": "/own"}
    ),
    "user-workdir-that-is-made": Case(
        "task-user",
        calls=((terminal("pwd; touch x"), r"(?s)^/made/for it\n.*[Pp]ermission denied"),),
        task={"workdir": "/made/for it"},
    ),
    "user-workdir-that-is-closed": Case(
        "task-user",
        none("InvalidTask"),
        "the working directory cannot be entered: /closed.*permission denied",
        task={"workdir": "/closed"},
    ),
    "user-oracle": Case(
        "task-user", task={**SOLVE, "workdir": "/own"}, agent=ORACLE, verifier=SOLVED
    ),
    "user-agent-user": Case(
        "task-user",
        none("InvalidTask"),
        "agent.user: .*the container runs as uid 1000 and only root may act for others",
        agent={"user": "root"},
    ),
    "user-verifier-user": Case(
        "task-user",
        none("VerifierError"),
        "verifier.user: .*the container runs as uid 1000",
        verifier={**SH, "user": "0"},
    ),
    # An odd configuration.
    "odd-tools": Case(
        "task-odd",
        calls=(*shell("/bin/"), (terminal("pwd"), f"^{ODD}\n$"), *NO_SEARCH),
        verifier=script(f'test "$PWD" = "{ODD}" && read word < note && {PASSING_TEST}'),
    ),
    "odd-oracle": Case("task-odd", task=SOLVE, agent=ORACLE, verifier=SOLVED),
    "odd-pytest": Case("task-odd", none("PythonMissing"), NO_PATH, verifier=PYTEST),
    "odd-verifier-user": Case(
        "task-odd",
        none("VerifierError"),
        'verifier.user: user "nobody" is not in the image\'s /etc/passwd',
        verifier={**SH, "user": "nobody"},
    ),
    "odd-verifier-user-by-number": Case(
        "task-odd",
        verifier={**script("test $(/bin/id -u) = 1000 && " + PASSING_TEST), "user": "1000"},
    ),
    # The same oddities under Python.
    "python-odd-workdir": Case(
        "task-python", calls=(*shell(), *SEARCH), task={"workdir": ODD}, verifier=PYTEST
    ),
    "python-odd-workdir-code": Case(
        "task-python", calls=SOLUTION, task={"workdir": ODD}, verifier=CODE
    ),
    "python-no-path": Case(
        "task-python",
        none("PythonMissing"),
        NO_PATH,
        task={"env": [{"name": "PATH", "value": ""}]},
        verifier=PYTEST,
    ),
    "python-user": Case(
        "task-python",
        calls=((terminal("echo x > note"), "[Pp]ermission denied"),),
        task={"user": 1000, "workdir": "/workspace"},
        verifier={
            "pytest": {"test": "import os\ndef test_it():\n    assert os.getuid() == 1000\n"}
        },
    ),
}


def spec(case: Case) -> dict[str, Any]:
    """The Episode of a case; images are named as in images/, references are the testbed's."""
    references: dict[str, str] = json.loads(stack.REFERENCES.read_text())
    verifier = {"timeoutSeconds": 60, **case.verifier}
    if "image" in verifier:
        verifier["image"] = references[verifier["image"]]
    scripted = {"kind": "Scripted", "script": [made for made, _ in case.calls]}
    agent = case.agent if "kind" in case.agent else {**scripted, **case.agent}
    return {
        "task": {"image": references[case.image], "instruction": "do it", **case.task},
        "agent": agent,
        "verifier": verifier,
        "infraRetryLimit": 0,
    }


@pytest.fixture(scope="module")
async def ended(shared: Episodes) -> dict[str, Ended]:
    """All cases, run at once."""
    return await shared.run_all({name: spec(case) for name, case in CASES.items()})


@pytest.mark.parametrize("name", CASES)
async def test_it_works_or_says_what_is_missing(
    ended: dict[str, Ended], shared: Episodes, name: str
) -> None:
    case, result = CASES[name], ended[name].result.spec
    said = f"{result.message}\n{result.verifier_output}"
    assert (str(result.verdict), result.reason) == case.end, said
    assert re.search(case.message, result.message), said
    if result.agent_end == "ScriptCompleted":
        answers = await shared.answers(ended[name])
        assert len(answers) == len(case.calls)
        for (made, pattern), answer in zip(case.calls, answers, strict=True):
            assert re.search(pattern, answer), f"{made}: {answer!r}"
            assert "pod uid" not in answer, "what a model reads is the same in every pod"


def test_agents_got_to_their_end(ended: dict[str, Ended]) -> None:
    """So that the answers above were looked at."""
    without_end = {name for name, each in ended.items() if each.result.spec.agent_end is None}
    stopped_before = {"InvalidTask", "SetupFailed"}
    assert without_end == {n for n, case in CASES.items() if case.end[1] in stopped_before}


async def test_archives_where_nobody_is_root(episodes: Episodes) -> None:
    """Files of the task and of the tests that come as archives, in an image whose user is 1000."""
    packed = archive({"data": b"walnut\n"})
    part = {"binaryData": {"part": base64.b64encode(packed).decode()}}
    metadata = {"name": "packed", "namespace": episodes.namespace}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **part}
    await episodes.client.create(CONFIG_MAPS, body)

    def unpacked_at(path: str) -> list[dict[str, Any]]:
        return [{"path": path, "sha256": hashlib.sha256(packed).hexdigest(), "parts": ["packed"]}]

    test = f"cmp /own/task/data /tests/more/data && {PASSING_TEST}"
    verifier = {"testScript": {"script": test, "archives": unpacked_at("/tests/more")}}
    task = {"archives": unpacked_at("/own/task")}
    ended = await episodes.run("archives", spec(Case("task-user", task=task, verifier=verifier)))
    assert ended.verdict == ("Passed", 1, "TestsPassed"), ended.result.spec.message


def archive(files: dict[str, bytes]) -> bytes:
    """A gzipped tar."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()
