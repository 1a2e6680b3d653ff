"""Against PID 1, the runner: ending it, looking into it, changing it, and taking its place."""

from tests.cluster.attacks.attack import (
    FORGER,
    IMAGE,
    PASSED,
    SOLVE,
    Attack,
    Attempt,
    payload,
    tries,
)

_SIGNALS = "for signal in $(seq 64); do kill -$signal 1; done 2> /dev/null; sleep 0.2; echo alive"

_SCORE = "cat /proc/1/oom_score_adj"
_NO_VICTIM = (
    f'for n in $(seq 50); do [ "$({_SCORE})" != 1000 ] && echo none && exit; sleep 0.1; done'
)
"""The runner is one for the moment that it forks."""

_KILL_ATTACHED = f"""\
: {FORGER}; while sleep 0.2; do
  for pid in $(ls /proc | grep '^[0-9]'); do
    tr '\\0' ' ' < /proc/$pid/cmdline | grep -q '^/.episode/runner attach' && kill -9 $pid
  done
done 2> /dev/null"""

_FLOOD = "yes $(printf 'x%.0s' $(seq 4000)) | head -c 50000000"

_DENIED = "Operation not permitted|Permission denied"


def _calls(name: str, attack: str, answer: str) -> Attempt:
    return tries(name, f"python3 /tmp/against_pid_1.py {attack}", f"^{attack}: .*({answer})")


ATTACKS: dict[str, Attack] = {
    "runner-signals": Attack((tries("sends it every signal", _SIGNALS, r"^alive\n$"),)),
    "runner-system-calls": Attack(
        (
            payload("against_pid_1"),
            _calls("attaches to it", "attach", _DENIED),
            _calls("seizes it", "seize", _DENIED),
            _calls("reads its memory", "read", _DENIED),
            _calls("opens its memory to write", "write", _DENIED),
            _calls("takes one of its files", "take", _DENIED),
            _calls("limits the time it may compute", "limit", _DENIED),
            _calls("connects to its socket", "connect", "comes from inside the container"),
            _calls("listens in its place", "listen", "in use"),
            tries("serves", "/.episode/runner serve", "must be PID 1"),
            tries("attaches itself", "/.episode/runner attach", "comes from inside the container"),
            tries("replaces its program", "cp /bin/true /.episode/runner", "Read-only"),
            tries("moves its program", "mv /.episode/runner /tmp/x", "Read-only"),
            tries("moves its folder", "mv /.episode /moved", "busy"),
            tries("makes it a victim", f"{_SCORE}; echo 1000 > /proc/1/oom_score_adj"),
            tries("it is none", _NO_VICTIM, "none"),
        ),
        image=IMAGE,
    ),
    "runner-attached-process": Attack(
        (
            payload("catch_attached"),
            tries(
                "kills what connects the operator, and opens its files when it is there again",
                "python3 /tmp/catch_attached.py",
                r"^opened 0 of [1-9]\d*\n$",
            ),
        ),
        image=IMAGE,
    ),
    "runner-connection-cut": Attack(
        (
            tries("keeps killing what connects the operator", f"({_KILL_ATTACHED}) & sleep 2"),
            tries("goes on", "sleep 1; echo on", r"^on\n$"),
            Attempt("solves the task", SOLVE),
        ),
        verdict=PASSED,
        image=IMAGE,
    ),
    "runner-memory": Attack(
        (
            *(tries(f"prints 50 MB, time {n}", _FLOOD, "bytes omitted") for n in range(4)),
            *(tries(f"prints for ever, {n}", "yes", "started", background=True) for n in range(8)),
            tries("still works", "echo on", r"^on\n$"),
        ),
        spec={"sandbox": {"resources": {"memory": "256Mi", "cpu": "500m"}}},
        agent={"outputLimitBytes": 262_144},
    ),
    "runner-state-report": Attack(
        (
            tries(
                "forges what the shell reports",
                "for n in $(seq 200); do echo forged >&99; done; "
                "tr '\\0' ' ' < /proc/$$/cmdline; export A=1",
            ),
            tries("fills what the shell reports", "yes >&99", "killed after 2 s", timeout=2),
            tries("has what it exported", "echo $A", "1"),
        ),
    ),
}
