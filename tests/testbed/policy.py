"""The testbed's model: SmolLM2 after the fine-tune of examples/policy, made once and kept.

python -m tests.testbed.policy           make the model, print where it is
"""

import hashlib
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.testbed.environments import exclusive
from tests.testbed.errors import TestbedError
from tests.testbed.vllm import LOCK, ensure_vllm_environment

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "policy"
INPUTS = ("train.py", "tasks.py", "tools.json", "chat_template.jinja")


def ensure_policy(cache: Path, say: Callable[[str], None]) -> Path:
    """The folder of the trained model; trained when there is none of these very inputs.

    Makes the vLLM environment first when it is missing. Training takes two minutes on two idle
    cores.
    """
    return ensure_trained(cache, cache / "vllm" / f"policy-{fingerprint()}", say)


def ensure_trained(
    cache: Path, folder: Path, say: Callable[[str], None], options: Sequence[str] = ()
) -> Path:
    """The folder, after the fine-tune of examples/policy with more of its options made it.

    Returns at once when it is there; else makes the vLLM environment first when that is missing.

    Raises:
        TestbedError: the fine-tune failed, and its log is beside the folder; or the environment
            cannot be had.
    """
    if folder.is_dir():
        return folder
    python = ensure_vllm_environment(cache, say)
    with exclusive(cache / "vllm" / "policy.lock"):
        if not folder.is_dir():
            say("loading the base model")
            _train(python, folder, say, options)
    return folder


def fingerprint() -> str:
    """Names the model by all that it is made of."""
    digest = hashlib.sha256(LOCK.read_bytes())
    for name in INPUTS:
        digest.update(name.encode() + b"\0" + (EXAMPLE / name).read_bytes())
    return digest.hexdigest()[:12]


def _train(python: Path, folder: Path, say: Callable[[str], None], options: Sequence[str]) -> None:
    log = folder.with_suffix(".log")
    command = [str(python), str(EXAMPLE / "train.py"), "--output", str(folder), *options]
    with log.open("w", buffering=1) as file:
        for line in _lines(command):
            file.write(line)
            if line.startswith("step "):
                say(" ".join(line.split()[:4]))
    if not folder.is_dir():
        raise TestbedError("the fine-tune of examples/policy failed", log=log)


def _lines(command: list[str]) -> Iterator[str]:
    """What a program prints, as it comes."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        env=environment,
    ) as process:
        assert process.stdout is not None
        yield from process.stdout


def main() -> None:
    """Make the model."""
    from tests.testbed.console import step  # noqa: PLC0415 (rich is not needed to import this)
    from tests.testbed.paths import CACHE  # noqa: PLC0415

    with step("policy model") as say:
        print(ensure_policy(CACHE, say))


if __name__ == "__main__":
    main()
