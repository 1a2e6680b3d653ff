"""How every command runs: with a client, and with errors that end in one line and an exit code."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import typer
from kubernetes.aio.config import ConfigException
from rich.console import Console

from episode_operator.api.reasons import Verdict
from episode_operator.kube import connection
from episode_operator.kube.client import KubernetesClient
from episodectl.errors import KNOWN, NoClusterError, explained

T = TypeVar("T")

FAILED, NOT_DONE, NO_VERDICT, INTERRUPTED = 1, 2, 3, 130
"""Exit codes besides 0: a judgement that is not a pass; the command did not do its work."""

VERDICTS = {Verdict.PASSED: 0, Verdict.FAILED: FAILED, Verdict.NO_VERDICT: NO_VERDICT}
"""Exit codes of commands that end with an Episode's verdict."""

PROGRAM: ContextVar[str] = ContextVar("PROGRAM", default="episodectl")
"""How the user called this program; for commands that messages tell the user to run."""


def say(text: str, style: str = "") -> None:
    """Tell the user something; standard output is for results alone."""
    console = Console(stderr=True, highlight=False)
    console.print(text, style=style, markup=False, soft_wrap=True)


@contextmanager
def reporting(*, interrupted: str = "interrupted") -> Iterator[None]:
    """Tell an error of KNOWN, or that the user interrupts, in a line.

    Raises:
        typer.Exit: NOT_DONE or INTERRUPTED.
    """
    try:
        yield
    except KNOWN as error:
        say(explained(error), "red")
        raise typer.Exit(NOT_DONE) from error
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        say(interrupted, "red")
        raise typer.Exit(INTERRUPTED) from error


def on_cluster(
    work: Callable[[KubernetesClient], Awaitable[T]], *, interrupted: str = "interrupted"
) -> T:
    """What the work gives, with a client of the kubeconfig's cluster; `reporting` what goes wrong.

    Args:
        interrupted: what to tell the user who interrupts it.
    """
    with reporting(interrupted=interrupted):
        return asyncio.run(_connected(work))
    raise AssertionError("unreachable")


async def _connected(work: Callable[[KubernetesClient], Awaitable[T]]) -> T:
    try:
        found = await connection.load()
    except (ConfigException, OSError) as error:
        raise NoClusterError(error) from error
    async with KubernetesClient(found) as client:
        return await work(client)
