"""Processes that an agent leaves: to write the reward, and to read the tests when they come."""

from typing import Any

from tests.cluster.attacks.attack import (
    BUSYBOX,
    FORGER,
    IMAGE,
    PASSED,
    PATIENT_SCRIPT,
    SCRIPT,
    SOLVE,
    Attack,
    Attempt,
    payload,
    tries,
)
from tests.cluster.attacks.evidence import FOLDER, LEFT, LINK, LOOP, WHOLE_LOOP, WRITE

_AWAIT = "until cat /logs/verifier/reward.txt 2> /dev/null | grep -m 1 .; do sleep 0.05; done"
_REMOVE = "until rm -f /logs/verifier/reward.txt 2> /dev/null; do :; done"
_WRITTEN = f"{_AWAIT}; {_REMOVE}; {_AWAIT}"
"""The reward is written, and again when it is removed: a line is printed for each.

The attack may replace the folder meanwhile, and append to the file.
"""

_STEAL = (
    f"mkdir stolen; cd /tests; setsid sh -c ': {FORGER}; while :; do "
    "cp /tests/* /workspace/stolen; cp * /workspace/stolen; sleep 0.02; done' "
)
"""Copies the tests when they come, by their path and from a folder that it keeps open."""

_HOP = f"""\
cat > hop.sh <<'END'
{WRITE}
sleep 0.01
sh /workspace/hop.sh {FORGER} &
END
setsid sh hop.sh {FORGER} {LEFT}"""

_PAIR = f"""\
cat > pair.sh <<'END'
echo $$ > /workspace/$1
while :; do
  {WRITE}
  sleep 0.02
  if ! kill -0 $(cat /workspace/$2); then
    setsid sh /workspace/pair.sh $2 $1 {FORGER} &
    sleep 0.2
  fi
done
END
setsid sh pair.sh one two {FORGER} {LEFT}"""

_SLOW_SEARCH = """\
deep=$(printf 'd/%.0s' $(seq 1900)); mkdir -p /tmp/$deep && cd /tmp/$deep
export PATH=$(printf 'a:%.0s' $(seq 25000))$PATH"""
"""Before a command starts its program is looked for in each folder of PATH: for seconds here."""

_KEEP: dict[str, Any] = {"testScript": {"script": PATIENT_SCRIPT}, "agentProcesses": "Keep"}


def _left(command: str, *, image: str = BUSYBOX) -> Attack:
    """A process that goes on writing the reward, or would."""
    name, whole = "leaves a process that writes the reward", f"{FOLDER}; {command} {_WRITTEN}"
    return Attack((tries(name, whole, r"^1\n1\n$", timeout=60),), image=image)


ATTACKS: dict[str, Attack] = {
    "loop-nohup": _left(f"nohup sh -c '{LOOP}' {LEFT}", image=IMAGE),
    "loop-setsid": _left(f"setsid sh -c '{LOOP}' {LEFT}"),
    "loop-double-fork": _left(f"( ( setsid sh -c '{LOOP}' {LEFT} ) & ) ;"),
    "loop-ignoring-signals": _left(f"setsid sh -c \"trap '' 1 2 3 10 12 15 18; {LOOP}\" {LEFT}"),
    "loop-trapping-its-exit": _left(
        f"setsid sh -c \"trap '{WRITE}' EXIT HUP TERM; {LOOP}\" {LEFT}"
    ),
    "loop-of-another-user": _left(
        f"chmod 777 /logs/verifier; setsid su -s /bin/sh nobody -c '{LOOP}' {LEFT}"
    ),
    "loop-of-ever-new-processes": _left(_HOP),
    "loop-of-two-that-revive-each-other": _left(_PAIR),
    "loop-with-open-files": _left(
        "cd /logs/verifier; exec 7>> reward.txt; "
        f"setsid sh -c ': {FORGER}; while :; do echo 1 >&7; echo 1 > reward.txt; sleep 0.02; done' "
        f"{LEFT} exec 7>&-;"
    ),
    "loop-through-a-link": Attack(
        (
            tries(
                "links the folder and keeps writing",
                f"{FOLDER}; {LINK}; setsid sh -c ': {FORGER}; while :; do "
                "echo 1 > /workspace/kept/reward.txt; ln -sfn /workspace/kept /logs/verifier; "
                f"{WRITE}; sleep 0.01; done' {LEFT} {_WRITTEN}",
                r"^1\n1\n$",
            ),
        ),
        runs=20,
    ),
    "loop-in-a-thread": Attack(
        (
            payload("leaderless"),
            tries(
                "leaves a thread of a process whose first thread has ended",
                f"{FOLDER}; python3 /tmp/leaderless.py; {_WRITTEN}; cat /proc/[0-9]*/stat",
                r"(?s)^1\n1\n.*\(python3\) Z",
            ),
        ),
        image=IMAGE,
    ),
    "loop-against-an-honest-reward": Attack(
        (
            Attempt("solves the task", SOLVE),
            tries(
                "keeps writing another reward",
                f"{FOLDER}; setsid sh -c '{LOOP.replace('echo 1', 'echo 0')}' {LEFT} {_WRITTEN}",
                r"^0\n0\n$",
            ),
        ),
        verdict=PASSED,
    ),
    "loop-that-may-stay": Attack(
        (tries("keeps writing the reward", f"{FOLDER}; setsid sh -c '{WHOLE_LOOP}' {LEFT}"),),
        verdict=PASSED,
        verifier=_KEEP,
        control=True,
    ),
    "thief": Attack(
        (
            tries(
                "waits for the tests",
                f"{_STEAL} {LEFT} touch x; until test -e /workspace/stolen/x; do sleep 0.1; done; "
                "ls /workspace/stolen; rm x; sleep 1; rm /workspace/stolen/*",
                "x",
            ),
        ),
        output="stolen: 0",
    ),
    "thief-in-the-next-step": Attack(
        (tries("does nothing", "true"),),
        later=(
            tries("looks for the tests of the first step", "ls -A /tests; echo none", r"^none\n$"),
            tries("looks for what they said", "cat /tests/* /logs/verifier/*", "No such file"),
        ),
    ),
    "thief-that-may-stay": Attack(
        (tries("waits for the tests", f"{_STEAL} {LEFT}"),),
        verifier=_KEEP,
        output="stolen: [1-9]",
        control=True,
    ),
    "command-that-starts-late": Attack(
        (
            tries("makes the search for programs slow", _SLOW_SEARCH),
            *(tries("is out of time in one of them", f"{LOOP} {LEFT}") for _ in range(15)),
        ),
        image=IMAGE,
        agent={"timeoutSeconds": 20, "toolTimeoutSeconds": 19},
        verifier={"testScript": {"script": SCRIPT.replace("sleep 0.3", "sleep 15")}},
    ),
}
