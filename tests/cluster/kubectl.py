"""kubectl, as a user runs it."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import yaml


@dataclass(frozen=True)
class Ran:
    """What a command printed."""

    code: int
    stdout: str
    stderr: str


async def run(*arguments: str, stdin: str | None = None) -> Ran:
    """Run kubectl with the testbed's kubeconfig (KUBECONFIG in the environment)."""
    process = await asyncio.create_subprocess_exec(
        "kubectl",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(None if stdin is None else stdin.encode())
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(), err.decode())


async def check(*arguments: str, stdin: str | None = None) -> str:
    """Run kubectl, which must succeed; its standard output."""
    ran = await run(*arguments, stdin=stdin)
    assert ran.code == 0, f"kubectl {' '.join(arguments)}: {ran.stderr}"
    return ran.stdout


async def apply(*objects: dict[str, Any], namespace: str, dry_run: bool = False) -> Ran:
    """kubectl apply of the objects."""
    flags = ["--dry-run=server"] if dry_run else []
    text = yaml.safe_dump_all(objects)
    return await run("apply", "-n", namespace, *flags, "-f", "-", stdin=text)


async def get(kind: str, name: str, *, namespace: str) -> dict[str, Any]:
    """One object."""
    value: dict[str, Any] = json.loads(
        await check("get", kind, name, "-n", namespace, "-o", "json")
    )
    return value


async def items(kind: str, *, namespace: str, selector: str = "") -> list[dict[str, Any]]:
    """All objects of a kind."""
    flags = ["-l", selector] if selector else []
    answer = json.loads(await check("get", kind, "-n", namespace, *flags, "-o", "json"))
    found: list[dict[str, Any]] = answer["items"]
    return found
