"""Episodes that are verified, under every contract: each with the verdict that is right."""

import os
from typing import Any

from tests.cluster.episodes import scripted, terminal

PASS = "def test_it():\n    assert open('/workspace/out').read() == 'ok'\n"
WRITE = terminal("printf ok > out")
CHECK = "from solution import double\nassert double(2) == 4\nprint('All tests passed')\n"
SOLVE = terminal("printf 'def double(x):\\n    return 2 * x\\n' > solution.py")

IMAGE, BUSYBOX = os.environ.get("TASK_IMAGE", ""), os.environ.get("BUSYBOX_IMAGE", "")


def pytest_episode(test: str, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    verifier = {"pytest": {"test": test}, "timeoutSeconds": 60, **more}
    return scripted(IMAGE, *calls, verifier=verifier)


def code_episode(code: str, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    verifier = {"testCode": {"code": code}, "timeoutSeconds": 60, **more}
    return scripted(IMAGE, *calls, verifier=verifier)


def reward_file(content: str) -> dict[str, Any]:
    return scripted(BUSYBOX, test=f"printf '{content}' > /logs/verifier/reward.txt")


CASES: dict[str, tuple[dict[str, Any], tuple[str, float | None, str]]] = {
    "pytest-passed": (pytest_episode(PASS, WRITE), ("Passed", 1, "TestsPassed")),
    "pytest-failed": (pytest_episode(PASS, terminal("true")), ("Failed", 0, "TestsFailed")),
    "pytest-none-collected": (
        pytest_episode("x = 1\n"),
        ("NoVerdict", None, "NoTestsCollected"),
    ),
    "pytest-all-skipped": (
        pytest_episode("import pytest\n@pytest.mark.skip\ndef test_it(): pass\n"),
        ("NoVerdict", None, "NoTestsCollected"),
    ),
    "pytest-syntax-error": (pytest_episode("def ("), ("NoVerdict", None, "VerifierError")),
    "pytest-exits-zero-early": (
        pytest_episode("import os\ndef test_it():\n    os._exit(0)\n"),
        ("NoVerdict", None, "VerifierError"),
    ),
    "pytest-timeout": (
        pytest_episode("import time\ndef test_it():\n    time.sleep(60)\n", timeoutSeconds=2),
        ("NoVerdict", None, "VerifierTimeout"),
    ),
    "pytest-steered-by-the-agent": (
        pytest_episode(
            PASS,
            terminal(
                "mkdir -p pytest json && echo 'main = lambda a: 0' > pytest/__init__.py && "
                "echo 'import os; os._exit(0)' | tee conftest.py sitecustomize.py json/__init__.py "
                "/conftest.py && printf '[pytest]\\naddopts = --collect-only\\n' > pytest.ini && "
                "export PYTEST_ADDOPTS=--collect-only PYTHONPATH=/workspace"
            ),
        ),
        ("Failed", 0, "TestsFailed"),
    ),
    "pytest-no-python": (
        scripted(BUSYBOX, verifier={"pytest": {"test": PASS}}),
        ("NoVerdict", None, "PythonMissing"),
    ),
    "script-passed": (
        scripted(BUSYBOX, WRITE, test="test -f out && echo 1 > /logs/verifier/reward.txt"),
        ("Passed", 1, "TestsPassed"),
    ),
    "script-partial": (reward_file("0.25"), ("Failed", 0.25, "TestsFailed")),
    "script-json": (
        scripted(BUSYBOX, test='echo \'{"reward": 1, "style": 0.5}\' > /logs/verifier/reward.json'),
        ("Passed", 1, "TestsPassed"),
    ),
    "script-exit-code-is-ignored": (
        scripted(BUSYBOX, test="echo 1 > /logs/verifier/reward.txt; exit 3"),
        ("Passed", 1, "TestsPassed"),
    ),
    "script-crlf": (
        scripted(BUSYBOX, test="#!/bin/sh\r\necho 1 > /logs/verifier/reward.txt\r\n"),
        ("Passed", 1, "TestsPassed"),
    ),
    # cases.md 10
    "script-missing-program": (
        scripted(BUSYBOX, test="no-such-program\nexit 0"),
        ("NoVerdict", None, "RewardMissing"),
    ),
    # cases.md 9
    "script-reward-by-the-agent": (
        scripted(
            BUSYBOX,
            terminal("mkdir -p /logs/verifier && echo 1 > /logs/verifier/reward.txt"),
            test="true",
        ),
        ("NoVerdict", None, "RewardMissing"),
    ),
    "script-reward-through-a-link": (
        scripted(
            BUSYBOX,
            terminal(
                "mkdir -p /logs keep; echo 1 > keep/reward.txt; "
                "ln -s /workspace/keep /logs/verifier"
            ),
            test="true",
        ),
        ("NoVerdict", None, "RewardMissing"),
    ),
    "script-reward-by-a-loop-left-behind": (
        scripted(
            BUSYBOX,
            terminal(
                "while true; do echo 1 > /logs/verifier/reward.txt; done 2>/dev/null",
                background=True,
            ),
            test="sleep 1",
        ),
        ("NoVerdict", None, "RewardMissing"),
    ),
    "script-nan": (reward_file("nan"), ("NoVerdict", None, "RewardInvalid")),
    "script-inf": (reward_file("inf"), ("NoVerdict", None, "RewardInvalid")),
    "script-underscore": (reward_file("1_0"), ("NoVerdict", None, "RewardInvalid")),
    "script-empty": (reward_file(""), ("NoVerdict", None, "RewardInvalid")),
    "script-two-lines": (reward_file("1\\n1\\n"), ("NoVerdict", None, "RewardInvalid")),
    "script-timeout": (
        scripted(
            BUSYBOX,
            verifier={"testScript": {"script": "sleep 60"}, "timeoutSeconds": 1},
        ),
        ("NoVerdict", None, "VerifierTimeout"),
    ),
    # cases.md 11
    "script-finds-the-images-tool": (
        scripted(
            BUSYBOX,
            terminal("hello-tool > out"),
            test="hello-tool | cmp - out && echo 1 > /logs/verifier/reward.txt",
        ),
        ("Passed", 1, "TestsPassed"),
    ),
    "script-without-root": (
        scripted(
            BUSYBOX,
            terminal("id -u > /tmp/out"),
            task={"image": BUSYBOX, "instruction": "x", "user": 1000, "workdir": "/tmp"},
            test="grep -q 1000 out && echo 1 > /logs/verifier/reward.txt",
        ),
        ("Passed", 1, "TestsPassed"),
    ),
    "code-passed": (code_episode(CHECK, SOLVE), ("Passed", 0.94, "TestsPassed")),
    "code-assertion": (
        code_episode(CHECK, terminal("printf 'def double(x):\\n    return x\\n' > solution.py")),
        ("Failed", 0.38, "TestsFailed"),
    ),
    "code-no-solution": (code_episode(CHECK), ("Failed", 0.31, "TestsFailed")),
    "code-exits-zero-early": (
        code_episode(
            CHECK,
            terminal("printf 'import os\\nprint(\"passed\")\\nos._exit(0)\\n' > solution.py"),
        ),
        ("Failed", 0.31, "TestsFailed"),
    ),
    "code-shadowed-module": (
        code_episode(
            "import json\n" + CHECK,
            terminal("echo 'import os; print(\"passed\"); os._exit(0)' > json.py"),
        ),
        ("Failed", 0.31, "TestsFailed"),
    ),
}
