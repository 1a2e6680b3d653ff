"""Every command of the documentation, as it stands there, on the real cluster."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from episode_operator.api.labels import RUN as RUN_LABEL
from episode_operator.kube.client import EPISODES
from tests import documented
from tests.cluster.episodes import PASSING_TEST, Episodes, manifest, scripted, terminal
from tests.ports import free_port
from tests.testbed import packages, stack
from tests.testbed.stack import ROOT

FAILING_TEST = "echo 0 > /logs/verifier/reward.txt"
PROGRAMS = ("gettext-base", "jq")
"""Debian packages of what the documentation's commands are piped through."""
_YAML = re.compile(r"^```yaml\n(apiVersion: episodes.dev.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS = 600.0
pytestmark = pytest.mark.timeout(1200)
"""Dozens of programs, each with some seconds where tests share two cores."""

OPERATOR = f"--operator-namespace {stack.NAMESPACE}"
"""Which one is meant: other tests run operators too."""
LEFT_OUT = ("registry.example.com", "make demo", "tutorial-atropos")
"""In blocks of the tutorial that need another registry, or what such a block has made."""


@dataclass(frozen=True)
class Shell:
    """A shell in a folder, with the programs and names that the documentation supposes."""

    folder: Path
    environment: Mapping[str, str]
    names: Mapping[str, str]

    def adapted(self, command: str) -> str:
        """The command with what is this cluster's own in place of the documentation's names."""
        for name, value in self.names.items():
            command = command.replace(name, value)
        return command

    async def run(self, command: str) -> str:
        """What it prints, on both outputs; a verdict other than Passed is no error."""
        process = await self._start(command)
        async with asyncio.timeout(_SECONDS):
            output, _ = await process.communicate()
        text = output.decode()
        verdict = "episodectl" in command and process.returncode in (1, 3)
        assert process.returncode == 0 or verdict, f"{command}\n{text}"
        return text

    async def run_until(self, command: str, pattern: str) -> None:
        """Run it until it has printed the pattern."""
        process = await self._start(command)
        assert process.stdout is not None
        text = ""
        async with asyncio.timeout(_SECONDS):
            while not re.search(pattern, text):
                line = await process.stdout.readline()
                assert line, f"{command} ended\n{text}"
                text += line.decode()
        os.killpg(process.pid, signal.SIGINT)
        await process.communicate()

    async def _start(self, command: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *("bash", "-o", "pipefail", "-c", self.adapted(command)),
            cwd=self.folder,
            env=dict(self.environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )


def kubeconfig(folder: Path, namespace: str) -> Path:
    """A file like that of the testbed, whose context has the namespace."""
    config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


def shell(folder: Path, namespace: str, image: str, model: Mapping[str, object]) -> Shell:
    """One for a namespace."""
    packages.install(PROGRAMS, print)
    for name in ("charts", "examples", "requirements"):
        (folder / name).symlink_to(ROOT / name)
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig(folder, namespace)),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TASK_IMAGE": image,
        "MODEL_ENDPOINT": str(model["endpoint"]),
        "MODEL_NAME": str(model["name"]),
    }
    digest = f"registry.test/image@sha256:{'0' * 64}"
    revision = "$(helm history episodes -n episode-system -o json | jq .[-1].revision)"
    names = {
        "episodectl --install-completion": (
            "export HOME=$PWD && episodectl --install-completion && true"  # bash stays its parent
        ),
        "scale deployment/episodes-bridge": "scale --dry-run=server deployment/episodes",
        "--all --all-namespaces": "-l episodes.dev/run=coding",
        "helm rollback episodes REVISION": f"helm rollback --dry-run episodes {revision}",
        "kubectl delete crd": "kubectl delete --dry-run=server crd",
        "export TASK_IMAGE=registry.example.com/episode-operator/task-python@sha256:...": "true",
        "registry.example.com/episode-operator/operator@sha256:...": digest,
        "registry.example.com/episode-operator/runner@sha256:...": digest,
        "registry.example.com/{name}:{tag}": image,
        "debian:12-slim": image,
        "http://episodes-vllm.episode-system.svc:8000/Qwen/Qwen3-4B": (
            f"{model['endpoint']}/{model['name']}"
        ),
        "http://...": f"{model['endpoint']}/{model['name']}",
        "01-hello/episode.yaml |": "01-hello/episode.yaml | sed 's/name: hello/name: example/' |",
        "top -n training": f"top -n {namespace}",
        "list -A": f"list -n {namespace}",
        "cancel hello world": "cancel busy world --yes",
        "episodectl ui": f"episodectl ui --no-open {OPERATOR}",
        "kubectl episode ui": f"kubectl episode ui --no-open {OPERATOR}",
        "grep NAME": "grep -c .",
        "jq -c": "jq --unbuffered -c",
        "episode NAME": "episode hello",
        "epi NAME": "epi hello",
        "episode=NAME": "episode=hello",
        "NAMESPACE": namespace,
        "results -n episode-system": f"results -n {namespace}",
    }
    return Shell(folder, environment, names)


def write_files(folder: Path, image: str) -> None:
    """What the commands read: README's Episode and test, a task, a row, values."""
    [episode] = _YAML.findall((ROOT / "README.md").read_text())
    spec = yaml.safe_load(episode)
    spec["spec"]["task"]["image"] = image
    spec["spec"]["model"] = {
        "endpoint": os.environ["MODEL_ENDPOINT"],
        "name": os.environ["MODEL_NAME"],
    }
    (folder / "episode.yaml").write_text(yaml.safe_dump(spec))
    test = spec["spec"]["verifier"]["testScript"]["script"]
    (folder / "test.sh").write_text(f"#!/bin/sh\n{test}")
    source, task = ROOT / "examples/tutorial/tasks/signal-word", folder / "tasks/sort-lines"
    for file in source.rglob("*.*"):
        to = task / file.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(file.read_text().replace("debian:12-slim", image))
    row = {
        "task": "Write f, which gives 1.",
        "test_code": "from solution import f\nassert f() == 1\n",
        "solution": "def f():\n    return 1\n",
        "image": image,
    }
    (folder / "rows.jsonl").write_text(json.dumps(row) + "\n")
    for name in ("values.yaml", "staging.yaml"):
        (folder / name).write_text("{}\n")


async def populate(episodes: Episodes, image: str) -> None:
    """Episodes that the commands name besides README's: two at work, and some of a run."""
    waits = [terminal("sleep 60")] * 60
    for name in ("busy", "world"):
        await episodes.create(name, scripted(image, *waits))
    for name, test in (("coding-000008-m0", FAILING_TEST), ("broken", "exit 0")):
        body = manifest(name, episodes.namespace, scripted(image, test=test))
        body["metadata"]["labels"] = {RUN_LABEL: "coding"}
        await episodes.client.create(EPISODES, body)
    await episodes.until_running("busy")
    for name in ("coding-000008-m0", "broken"):
        await episodes.finish(name)


@pytest.fixture
def found(episodes: Episodes, image: str, model: Mapping[str, object], tmp_path: Path) -> Shell:
    """A shell of the test's namespace, with the files that the commands read."""
    made = shell(tmp_path, episodes.namespace, image, model)
    write_files(tmp_path, image)
    return made


@pytest.mark.parametrize("page", documented.RUN)
async def test_each_command(found: Shell, episodes: Episodes, image: str, page: str) -> None:
    await populate(episodes, image)
    if page != "README.md":
        await found.run("kubectl apply -f episode.yaml")
        await episodes.finish("hello")
    wrong = []
    for command, pattern in documented.RUN[page].items():
        try:
            text = await found.run(command)
        except AssertionError as error:
            wrong.append(str(error))
            continue
        if not re.search(pattern, text, re.MULTILINE):
            wrong.append(f"{command}\nprinted\n{text}\nwithout {pattern}")
    assert not wrong, "\n\n".join(wrong)


async def test_each_unending_command(found: Shell, episodes: Episodes, image: str) -> None:
    await populate(episodes, image)
    for endless, printed in documented.UNENDING.items():
        await found.run_until(endless, printed)


@pytest.mark.parametrize("command", documented.DRY)
async def test_each_installation(found: Shell, episodes: Episodes, command: str) -> None:
    """As a dry run on the server: the releases and CRDs of the testbed stay as they are."""
    release = f"release-{episodes.namespace[-8:]}"
    elsewhere = re.sub(r"helm (install|upgrade) \S+", rf"helm \1 {release}", command)
    elsewhere = re.sub(r"(-n|--namespace) \S+", rf"\1 {episodes.namespace}", elsewhere)
    if "upgrade" in elsewhere:
        elsewhere += " --install"
    text = await found.run(f"{elsewhere} --set crds.install=false --dry-run=server")
    assert "kind: Deployment" in text and PASSING_TEST not in text


async def test_the_tutorial(
    episodes: Episodes, image: str, model: Mapping[str, object], tmp_path: Path
) -> None:
    """Its commands in their order, in one shell; what needs another registry is left out."""
    found = shell(tmp_path, episodes.namespace, image, model)
    parts = [
        block
        for block in documented.blocks(documented.TUTORIAL)
        if not any(text in block for text in LEFT_OUT)
    ]
    port = free_port()
    names = {
        "/tmp/atropos": str(tmp_path / "atropos"),
        "--port 8000": f"--port {port}",
        "http://localhost:8000": f"http://localhost:{port}",
        "> /tmp/atropos/bridge.yaml": f"| sed s/localhost:8000/localhost:{port}/ > bridge.yaml",
        "/tmp/atropos/bridge.yaml": "bridge.yaml",
        "helm test episodes": "true",
        "logs -f": f"logs -f {OPERATOR}",
    }
    path = tmp_path / "tutorial.sh"
    script = replace(found, names=dict(sorted(names.items(), key=lambda name: -len(name[0]))))
    path.write_text("set -x\n" + script.adapted("\n".join(parts)))
    text = await found.run(f"bash {path}")
    for pattern in (
        r"episode.episodes.dev/tutorial-first created",
        r'"name":"tutorial-oracle"[\s\S]*"verdict":"Passed"',
        r"step 1: a group of 8, mean reward 0\.\d+",
        r'"delivered": ?2',
    ):
        assert re.search(pattern, text), f"{pattern} is not in\n{text}"


@pytest.mark.alone
async def test_the_demo(tmp_path: Path) -> None:
    """It uses the testbed that is up."""
    found = Shell(ROOT, os.environ, {})
    text = await found.run("make demo")
    for pattern in (r"hello .*Passed", r"humaneval-0 .*Passed", r"wrong .*Failed"):
        assert re.search(pattern, text), text
