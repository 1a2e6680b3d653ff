"""Using things up: processes, memory, disk, and what the operator reads."""

from tests.cluster.attacks.attack import (
    FORGER,
    IMAGE,
    PASSED,
    SCRIPT,
    SOLVE,
    Attack,
    Attempt,
    tested_apart,
    tries,
)
from tests.cluster.episodes import call

_SOLVES = Attempt("solves the task", SOLVE)
_ALIVE = tries("still works", "cat answer", r"^42\n$")

_BOMB = f": {FORGER}; bomb() {{ bomb | bomb & }}; bomb 2>&1; sleep 8"
_SLEEPERS = f"sh -c ': {FORGER}; while :; do sleep 600 & done' 2>&1"
_STUFFING = (
    "for n in $(seq 30); do export VARIABLE_$n=$(head -c 90000 /dev/zero | tr '\\0' x); done"
)
_HOG = "python3 -c 'bytearray(512 << 20)' & wait; echo done"


def _little(**resources: str) -> dict[str, object]:
    return {"sandbox": {"resources": {"cpu": "500m", **resources}}}


def _read(path: str, answer: str) -> Attempt:
    return Attempt(f"reads {path}", call("read_file", path=path), answer)


ATTACKS: dict[str, Attack] = {
    "fork-bomb": Attack(
        (_SOLVES, tries("forks for ever", _BOMB, "can't fork", timeout=20)),
        verdict=PASSED,
        spec=_little(),
    ),
    "processes-to-the-limit": Attack(
        (_SOLVES, tries("leaves processes", _SLEEPERS, "can't fork", timeout=60)),
        verdict=PASSED,
        spec=_little(),
    ),
    "memory": Attack(
        (_SOLVES, tries("takes more than it may", _HOG), tries("goes on", "true")),
        verdict=("NoVerdict", None, "OOMKilled"),
        image=IMAGE,
        spec=_little(memory="128Mi"),
    ),
    "memory-of-shared-folders": Attack(
        (
            _SOLVES,
            tries(
                "fills /dev/shm",
                "dd if=/dev/zero of=/dev/shm/x bs=1M count=100",
                "No space left on device",
            ),
        ),
        verdict=PASSED,
        spec=_little(memory="256Mi"),
    ),
    "disk-of-the-image": Attack(
        (_SOLVES, tries("fills the disk", "fallocate -l 300M /big && sleep 170")),
        verdict=("NoVerdict", None, "Evicted"),
        image=IMAGE,
        spec=_little(ephemeralStorage="64Mi"),
    ),
    "disk-of-the-tests": Attack(
        (_SOLVES, tries("fills a volume", "fallocate -l 1100M /tests/big && sleep 170")),
        verdict=("NoVerdict", None, "Evicted"),
        image=IMAGE,
        spec=_little(),
    ),
    "output-without-end": Attack(
        (
            _SOLVES,
            tries("prints for ever", "yes", r"bytes omitted(?s:.)*killed after 2 s", timeout=2),
            tries("prints one long line", "head -c 100000000 /dev/zero | tr '\\0' x", "omitted"),
            _ALIVE,
        ),
        verdict=PASSED,
        spec=_little(),
    ),
    "files-without-end": Attack(
        (
            _SOLVES,
            tries(
                "makes them", "truncate -s 1000G huge; mkfifo pipe; mkdir folder; ln -s loop loop"
            ),
            _read("/workspace/huge", "^error: .*larger than"),
            _read("/workspace/pipe", "^error: .*is a pipe"),
            _read("/workspace/folder", "^error: "),
            _read("/workspace/loop", "^error: "),
            _read("/dev/zero", "^error: .*is a pipe, socket or device"),
            _read("/proc/self/mem", "^error: "),
            _read("/proc/kmsg", "^(error: |.empty file)"),
            _ALIVE,
        ),
        verdict=PASSED,
        spec={"artifacts": ["/workspace/huge", "/workspace/pipe", "/workspace/answer"]},
        missing=frozenset({"/workspace/huge", "/workspace/pipe"}),
    ),
    "files-without-end-carried": Attack(
        (_SOLVES, tries("makes a huge file", "truncate -s 1000G huge")),
        verdict=("NoVerdict", None, "VerifierError"),
        verifier=tested_apart(testScript={"script": SCRIPT}),
    ),
    "environment-without-end": Attack(
        (_SOLVES, tries("exports 2.7 MB", _STUFFING), tries("goes on", "echo on")),
        verdict=PASSED,
        image=IMAGE,
    ),
}
