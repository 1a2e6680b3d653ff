"""Progress that reads well on a terminal (spinners) and in a log file (plain lines)."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

HEARTBEAT_SECONDS = 30.0
QUICK_SECONDS = 1.0

console = Console(stderr=True, highlight=False, soft_wrap=True)
_live: Progress | None = None
_users = 0
_lock = threading.Lock()


@contextmanager
def step(name: str) -> Iterator[Callable[[str], None]]:
    """Show `name` while the block runs; the yielded call says what it is waiting for.

    Several steps may run at once from several threads. A step that took long says how long;
    one that fails is marked and its error goes on to the caller.
    """
    started = time.monotonic()
    if sys.stderr.isatty():
        with _spinner(name) as detail:
            yield from _finish(name, started, detail)
    else:
        with _heartbeat(name, started) as detail:
            yield from _finish(name, started, detail)


def _finish(
    name: str, started: float, detail: Callable[[str], None]
) -> Iterator[Callable[[str], None]]:
    try:
        yield detail
    except BaseException:
        console.print(f"[red]failed[/]  {name} after {time.monotonic() - started:.1f} s")
        raise
    console.print(f"[green]ok[/]      {name} [dim]{time.monotonic() - started:.1f} s[/]")


@contextmanager
def _spinner(name: str) -> Iterator[Callable[[str], None]]:
    progress = _acquire()
    task = progress.add_task(name, total=None)
    try:
        yield lambda text: progress.update(task, description=f"{name}: {text}")
    finally:
        progress.remove_task(task)
        _release()


def _acquire() -> Progress:
    global _live, _users  # noqa: PLW0603 (one terminal, one live display)
    with _lock:
        if _live is None:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            _live = Progress(*columns, console=console, transient=True)
            _live.start()
        _users += 1
        return _live


def _release() -> None:
    global _live, _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        if _users == 0 and _live is not None:
            _live.stop()
            _live = None


@contextmanager
def _heartbeat(name: str, started: float) -> Iterator[Callable[[str], None]]:
    state = {"text": ""}
    done = threading.Event()

    def beat() -> None:
        if done.wait(QUICK_SECONDS):
            return
        console.print(f"...     {name}")
        while not done.wait(HEARTBEAT_SECONDS):
            waiting = f": {state['text']}" if state["text"] else ""
            console.print(f"...     {name}{waiting} ({time.monotonic() - started:.0f} s)")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield lambda text: state.update(text=text)
    finally:
        done.set()
        thread.join()
