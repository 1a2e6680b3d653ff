"""Command line of the testbed: `python -m tests.testbed up | down | status | kubeconfig`."""

import fcntl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from tests.testbed import choice, stack
from tests.testbed.console import console
from tests.testbed.errors import TestbedError
from tests.testbed.paths import CACHE

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@app.command()
def up() -> None:
    """Bring everything up, or repair it; seconds when it is up already."""
    started = time.monotonic()
    with _alone():
        stack.up(choice.current())
    console.print(f"ready after {time.monotonic() - started:.1f} s, with")
    kubeconfig()


@app.command()
def down(
    purge: Annotated[bool, typer.Option(help="Remove keys, images and logs too.")] = False,
) -> None:
    """End the cluster and leave nothing behind but caches; fails if something stays."""
    with _alone():
        choice.current().down(purge)
    console.print("the testbed is down")


@app.command()
def status() -> None:
    """Print a table of what runs; exit 1 unless all is well."""
    table, well = choice.current().status()
    console.print(table)
    raise typer.Exit(0 if well else 1)


@app.command()
def kubeconfig() -> None:
    """Print the path of the kubeconfig."""
    print(choice.current().kubeconfig)


@app.command()
def registry() -> None:
    """Print the address of the registry to push images to."""
    print(choice.current().registry)


@contextmanager
def _alone() -> Iterator[None]:
    """Let one `up` or `down` of this user run at a time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "testbed.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.print("waiting for another `up` or `down` to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Run the command line; show a TestbedError as text, never as a traceback."""
    try:
        app()
    except TestbedError as error:
        print(error.render(), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
