"""Changing the image: programs, libraries and packages that the tests use.

A root agent may, and decides the verdict of tests that run where it worked. So this is tested with
tests in a container of their own, and with agents that are not root; the controls show what
happens without either.
"""

from typing import Any

from tests.cluster.attacks.attack import (
    FORGER,
    IMAGE,
    PASSED,
    PYTEST,
    SCRIPT,
    Attack,
    Attempt,
    puts,
    tested_apart,
    tested_by_pytest,
    tries,
)
from tests.cluster.attacks.steering import FORGE
from tests.cluster.episodes import call

_CAT = tries(
    "replaces cat",
    "rm $(command -v cat); "
    f"printf '#!/bin/sh\\n: {FORGER}\\necho 42\\n' > /bin/cat; chmod 755 /bin/cat; hash -r; "
    "cat answer",
    r"^42\n$",
)
_PYTHON = (
    puts(
        "/workspace/python3",
        "#!/bin/sh\nmkdir -p /logs/verifier\necho '<testsuite tests=\"1\"/>' "
        f"> /logs/verifier/junit.xml\necho {FORGER}\n",
    ),
    tries(
        "replaces Python",
        "chmod 755 python3; mv python3 $(command -v python3); python3 -c 'never run'",
        FORGER,
    ),
)
_START_UP = (
    puts("/workspace/forger_of_site.py", FORGE),
    tries(
        "plants modules that start with Python",
        "site=$(dirname $(dirname $(python3 -c 'import pytest; print(pytest.__file__)'))) && "
        "cp forger_of_site.py $site/sitecustomize.py && mv forger_of_site.py $site && "
        "echo 'import forger_of_site' > $site/forger.pth; python3 -c pass",
        FORGER,
    ),
)
_PACKAGES = (
    puts("/workspace/forger.py", FORGE),
    tries(
        "changes pytest",
        "cat forger.py >> $(python3 -c 'import pytest; print(pytest.__file__)'); "
        "python3 -c 'import pytest'",
        FORGER,
    ),
)
_LIBRARIES = tries(
    "preloads a library everywhere",
    f"echo /workspace/{FORGER}.so > /etc/ld.so.preload; /usr/bin/true",
    FORGER,
)

_DENIED = "(?i:permission denied|not permitted|read-only)"


_REFUSED = "^error: .*permission denied"


def _denied(name: str, command: str) -> Attempt:
    return tries(name, f"{command}; echo ended with $?", rf"(?s)({_DENIED}).*ended with [1-9]")


_FILES_OF_ROOT: dict[str, Any] = {
    "files": [
        {"path": "/root/secret", "content": "root knows", "mode": "600"},
        {"path": "/etc/agreed", "content": "agreed", "mode": "644"},
    ]
}
_AS_USER = (
    tries("is not root", "id -u; grep -h Cap /proc/self/status", r"(?s)^1000\n.*CapEff:\s0+\n"),
    _denied("replaces Python", "cp /bin/true $(command -v python3)"),
    _denied("replaces the shell", "cp /bin/true /bin/sh"),
    _denied("preloads a library", "echo /tmp/x.so > /etc/ld.so.preload"),
    _denied(
        "changes installed packages",
        "echo x >> $(python3 -c 'import pytest; print(pytest.__file__)')",
    ),
    _denied("writes start-up files of root", "echo x >> /root/.bashrc"),
    _denied("writes a program onto the PATH", "echo x > /usr/local/bin/cat"),
    _denied("reads root's files", "cat /root/secret"),
    _denied("kills PID 1", "kill -9 1"),
    _denied("becomes root", "python3 -c 'import os; os.setuid(0)'"),
    _denied("reads PID 1", "cat /proc/1/environ"),
    Attempt("writes as the operator", call("write_file", path="/etc/x", content=""), _REFUSED),
    Attempt("reads as the operator", call("read_file", path="/root/secret"), _REFUSED),
    Attempt("reads PID 1 as the operator", call("read_file", path="/proc/1/environ"), _REFUSED),
    Attempt(
        "patches as the operator",
        call("patch", path="/etc/agreed", old_string="agreed", new_string="changed"),
        _REFUSED,
    ),
    Attempt(
        "searches as the operator",
        call("search_files", pattern="knows", path="/root/secret"),
        "denied",
    ),
    tries("runs something in the background", "id -u > /tmp/background", background=True),
    tries("has not run it as root", "sleep 0.5; cat /tmp/background", r"^1000\n$"),
)

ATTACKS: dict[str, Attack] = {
    "root-replaces-cat": Attack(
        (_CAT,), image=IMAGE, verifier=tested_apart(testScript={"script": SCRIPT})
    ),
    "root-replaces-cat-unprotected": Attack((_CAT,), verdict=PASSED, image=IMAGE, control=True),
    "root-replaces-python": Attack(
        _PYTHON, image=IMAGE, verifier=tested_apart(pytest={"test": PYTEST})
    ),
    "root-replaces-python-unprotected": Attack(
        _PYTHON, verdict=PASSED, image=IMAGE, verifier=tested_by_pytest(), control=True
    ),
    "root-plants-start-up-modules": Attack(_START_UP, image=IMAGE, verifier=tested_by_pytest()),
    "root-changes-packages": Attack(
        _PACKAGES, image=IMAGE, verifier=tested_apart(pytest={"test": PYTEST})
    ),
    "root-changes-packages-unprotected": Attack(
        _PACKAGES, verdict=PASSED, image=IMAGE, verifier=tested_by_pytest(), control=True
    ),
    "root-preloads-a-library": Attack(
        (_LIBRARIES,), image=IMAGE, verifier=tested_apart(testScript={"script": SCRIPT})
    ),
    "root-plants-evidence-and-tests": Attack(
        (
            tries(
                "fills the folders of its own container",
                "mkdir -p /logs/verifier && echo 1 > /logs/verifier/reward.txt && "
                "echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh && "
                "ln -s /logs/verifier/reward.txt answer",
            ),
        ),
        verifier=tested_apart(testScript={"script": SCRIPT}),
    ),
    "root-changes-files-of-the-pod": Attack(
        (
            tries(
                "writes names and resolvers",
                "sleep 3; for file in hosts resolv.conf hostname; do "
                f"echo '# {FORGER}' >> /etc/$file; done; cat /etc/hostname /etc/resolv.conf",
                f"{FORGER}(?s:.*){FORGER}",
            ),
        ),
        verifier=tested_apart(
            testScript={"script": f"{SCRIPT}\ncat /etc/hosts /etc/resolv.conf /etc/hostname\n"}
        ),
    ),
    "agent-that-is-not-root": Attack(
        _AS_USER,
        image=IMAGE,
        task=_FILES_OF_ROOT,
        agent={"user": "1000"},
        verifier=tested_by_pytest(),
    ),
}
