"""Steering the tests' interpreters by what lies in folders, variables and start-up files."""

from tests.cluster.attacks.attack import (
    FORGER,
    HIDDEN,
    IMAGE,
    Attack,
    puts,
    tested_by_pytest,
    tries,
)

FORGE = f"""\
print("{FORGER}")
import pathlib
pathlib.Path.read_text = lambda *_, **__: "42"
"""
"""A Python module that makes the tests see the right answer."""

_PLUGIN = f"""\
def pytest_pyfunc_call(pyfuncitem):
    print("{FORGER}")
    return True
"""
"""A pytest plugin that calls no test, and says that it passed."""

_OWN_TEST = puts("/tmp/own/test_own.py", "def test_own():\n    assert False\n")

_INI = {
    "pytest.ini": "[pytest]\naddopts = -p forger\n",
    "tox.ini": "[pytest]\naddopts = -p forger\n",
    "setup.cfg": "[tool:pytest]\naddopts = -p forger\n",
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-p forger"\n',
}

_VARIABLES = """\
export PYTHONPATH=/workspace PYTHONSTARTUP=/workspace/sitecustomize.py
export PYTEST_ADDOPTS='-p forger' PYTEST_PLUGINS=forger BASH_ENV=/workspace/rc ENV=/workspace/rc"""

_RC = f"cat() {{ echo 42; echo {FORGER} >&2; }}; export -f cat; export PYTEST_PLUGINS=forger\n"

_RC_FILES = """\
for file in ~/.bashrc ~/.bash_profile ~/.profile ~/.bash_login ~/.shrc /etc/profile.d/rc.sh \
/etc/bash.bashrc /etc/profile /etc/environment; do cat rc >> $file; done; tail -n 1 ~/.profile"""

_PROGRAM = f"""\
#!/bin/sh
mkdir -p /logs/verifier
echo '<testsuite tests="1" failures="0" errors="0" skipped="0"/>' > /logs/verifier/junit.xml
echo {FORGER}
"""

_ABSENT = "msvcrt nt _winapi winreg _overlapped org"
"""Modules of other systems, which the standard library looks for everywhere before it goes on."""

_BASH = f"""\
#!/bin/bash
# {HIDDEN}
if [ "$(cat /workspace/answer)" = 42 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""

ATTACKS: dict[str, Attack] = {
    "pytest-conftest": Attack(
        (
            puts("/workspace/conftest.py", _PLUGIN),
            tries(
                "plants it everywhere",
                "for place in / ~ /tests /tmp/own; do mkdir -p $place; cp conftest.py $place; done;"
                " ls /conftest.py",
                "/conftest.py",
            ),
            _OWN_TEST,
            tries("shows that it works", "cd /tmp/own && python3 -m pytest -q", "1 passed"),
        ),
        image=IMAGE,
        verifier=tested_by_pytest(),
    ),
    "pytest-configuration": Attack(
        (
            puts("/workspace/forger.py", _PLUGIN),
            *(puts(f"/workspace/{name}", text) for name, text in _INI.items()),
            tries(
                "plants it everywhere",
                "for place in / ~ /tests; do cp *.ini *.cfg *.toml forger.py $place; done; "
                "ls /*.ini",
                "/pytest.ini",
            ),
            _OWN_TEST,
            tries("shows that it works", "python3 -m pytest -q /tmp/own -c tox.ini", "1 passed"),
        ),
        image=IMAGE,
        verifier=tested_by_pytest(),
    ),
    "pytest-variables-and-start-up-files": Attack(
        (
            puts("/workspace/forger.py", _PLUGIN),
            puts("/workspace/sitecustomize.py", FORGE),
            puts("/workspace/rc", _RC),
            _OWN_TEST,
            tries("writes start-up files", _RC_FILES, FORGER),
            tries("exports variables", _VARIABLES, "no output"),
            tries("shows that they work", "python3 -m pytest -q /tmp/own", "1 passed"),
        ),
        image=IMAGE,
        verifier=tested_by_pytest(),
    ),
    "pytest-user-site": Attack(
        (
            puts("/workspace/forger_of_site.py", FORGE),
            tries(
                "plants modules that start with Python",
                "site=$(python3 -m site --user-site) && mkdir -p $site && cp *.py $site && "
                "cp forger_of_site.py $site/usercustomize.py && "
                "cp forger_of_site.py $site/sitecustomize.py && "
                "echo 'import forger_of_site' > $site/forger.pth",
            ),
            tries("shows that they work", "python3 -c pass", FORGER),
        ),
        image=IMAGE,
        verifier=tested_by_pytest(),
    ),
    "pytest-modules-with-known-names": Attack(
        (
            puts("/workspace/forger.py", FORGE),
            tries(
                "plants them in the working directory",
                "for name in pytest _pytest pluggy iniconfig packaging json runpy "
                "unittest importlib exceptiongroup tomli pygments attr numpy; do "
                "cp forger.py $name.py; mkdir $name; cp forger.py $name/__init__.py; done; "
                "python3 -c 'import json'",
                FORGER,
            ),
        ),
        image=IMAGE,
        verifier=tested_by_pytest(),
    ),
    "pytest-modules-of-other-systems": Attack(
        (
            puts("/workspace/forger.py", f"{FORGE}raise ModuleNotFoundError\n"),
            tries(
                "plants them in the working directory",
                f"for name in {_ABSENT}; do cp forger.py $name.py; done; "
                "python3 -c 'import subprocess, copy'",
                FORGER,
            ),
        ),
        image=IMAGE,
        verifier=tested_by_pytest(),
    ),
    "pytest-programs-on-the-path": Attack(
        (
            puts("/workspace/bin/python3", _PROGRAM),
            tries(
                "puts a folder of its own first",
                "chmod +x bin/python3; cp -r bin ~/; mkdir -p ~/.local; cp -r bin ~/.local/; "
                "export PATH=/workspace/bin:$PATH; python3 -c 'never run'",
                FORGER,
            ),
        ),
        image=IMAGE,
        verifier=tested_by_pytest(),
    ),
    "script-functions-and-start-up-files": Attack(
        (
            puts("/workspace/rc", _RC),
            tries("writes start-up files", _RC_FILES, FORGER),
            tries(
                "exports a function",
                f"{_VARIABLES}; {_RC.strip()}; bash -c 'cat /workspace/answer'",
                "^42",
            ),
        ),
        image=IMAGE,
        verifier={"testScript": {"script": _BASH}},
    ),
    "script-programs-on-the-path": Attack(
        (
            puts("/workspace/bin/cat", f"#!/bin/sh\necho {FORGER} >&2\necho 42\n"),
            tries(
                "puts a folder of its own first",
                "chmod +x bin/cat; cp -r bin ~/; export PATH=/workspace/bin:$PATH; cat answer",
                "42",
            ),
        ),
        image=IMAGE,
        verifier={"testScript": {"script": _BASH}},
    ),
    "code-that-exits-in-the-solution": Attack(
        (puts("/workspace/solution.py", 'print("passed")\nraise SystemExit(0)\n'),),
        image=IMAGE,
        verdict=("Failed", 0.265, "TestsFailed"),
        verifier={
            "testCode": {
                "code": f"# {HIDDEN}\nfrom solution import double\nassert double(2) == 4\n"
                'print("All tests passed")\n'
            }
        },
    ),
    "pytest-ended-by-the-solution": Attack(
        (
            puts(
                "/workspace/solution.py",
                "import pytest\n\ndef answer():\n    pytest.exit('done', returncode=0)\n",
            ),
        ),
        image=IMAGE,
        verdict=("NoVerdict", None, "VerifierError"),
        verifier={
            "pytest": {
                "test": f"# {HIDDEN}\ndef test_nothing():\n    pass\n\ndef test_the_answer():\n"
                "    from solution import answer\n    assert answer() == 42\n"
            }
        },
    ),
}
