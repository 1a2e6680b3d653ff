"""The command line of the bridge: serve, process, evaluate, status."""

import asyncio
import logging
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from kubernetes.aio.config import ConfigException
from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape

from episode_operator.kube.client import ApiError
from episode_operator.results.objects import ObjectStoreError
from trainer_bridge.charts.wandb_charts import WandbMissingError
from trainer_bridge.config import BridgeConfig, ConfigError, load
from trainer_bridge.run.bridge import Bridge
from trainer_bridge.run.context import Context
from trainer_bridge.run.lease import LeaseLostError
from trainer_bridge.run.opening import opened, stored
from trainer_bridge.run.state import StateError
from trainer_bridge.shown import ProgressView, show_evaluation, show_status
from trainer_bridge.sinks.base import SinkError
from trainer_bridge.sources.catalog import Catalog, read_catalog
from trainer_bridge.sources.errors import DatasetError, NoTasksError
from trainer_bridge.statistics.evaluation_files import EvaluationUnreadableError

USAGE, STOPPED = 2, 130

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
console = Console(stderr=True)

ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="The configuration, YAML.")]

_ERRORS = (
    ApiError,
    ConfigError,
    DatasetError,
    EvaluationUnreadableError,
    LeaseLostError,
    NoTasksError,
    ObjectStoreError,
    OSError,
    SinkError,
    StateError,
    WandbMissingError,
)


def _checked_label(label: str | None) -> str | None:
    if label is not None and not re.fullmatch(r"[a-z0-9]{1,40}", label):
        raise typer.BadParameter("1 to 40 lower-case letters and digits")
    return label


@app.callback()
def _main() -> None:
    """Feed a trainer with Episodes."""
    text = "%(name)s: %(message)s"
    if console.is_terminal:  # Rich writes the level itself
        handler: logging.Handler = RichHandler(console=console, show_path=False)
    else:
        handler, text = logging.StreamHandler(), f"%(levelname)s {text}"
    logging.basicConfig(level=logging.INFO, format=text, handlers=[handler])
    logging.getLogger("stamina").setLevel(logging.ERROR)


@app.command()
def serve(config: ConfigFile) -> None:
    """Feed the trainer until it has taken all its steps; started again, it goes on."""
    settings = _configured(config)
    different = settings.env.ensure_scores_are_not_same

    async def work(context: Context) -> None:
        with ProgressView(console, context) as view:
            await Bridge(context, show=view.show).serve()

    _run(settings, work, different_scores=different)


@app.command()
def process(
    config: ConfigFile,
    groups: Annotated[
        int | None,
        typer.Option(min=1, help="Groups to make; one of each training task if not given."),
    ] = None,
) -> None:
    """Make a dataset: so many groups, each handed to the sink; started again, it goes on."""

    async def work(context: Context) -> None:
        with ProgressView(console, context) as view:
            await Bridge(context, show=view.show).process(groups or len(context.catalog.train))
        show_status(console, context.config.run, context.state)

    _run(_configured(config), work, different_scores=False)


@app.command()
def evaluate(
    config: ConfigFile,
    label: Annotated[
        str | None,
        typer.Option(
            callback=_checked_label,
            help="Names the evaluation, in lower-case letters and digits; with that of one that "
            "was interrupted it goes on. The time of day if not given.",
        ),
    ] = None,
) -> None:
    """Evaluate on the tasks that are held out, once."""
    name = label or datetime.now(UTC).strftime("t%Y%m%d%H%M%S")

    async def work(context: Context) -> None:
        with ProgressView(console, context) as view:
            report = await Bridge(context, show=view.show).evaluate(name)
        show_evaluation(console, report)

    _run(_configured(config), work, different_scores=False, feeding=False)


@app.command()
def status(config: ConfigFile) -> None:
    """Show how the run stands: JSON where the output is no terminal."""
    settings = _configured(config)

    async def look() -> int:
        async with stored(settings.namespace) as where:
            state = await where.state(settings.run).load()
        if state is None:
            console.print(f"run {settings.run} was never started in namespace {where.namespace}")
            return 1
        if sys.stdout.isatty():
            show_status(Console(), settings.run, state)
        else:
            print(state.model_dump_json())  # noqa: T201
        return 0

    raise typer.Exit(_exit_code(look))


def _configured(path: Path) -> BridgeConfig:
    try:
        return load(path)
    except ConfigError as error:
        _failed(error)
        raise typer.Exit(USAGE) from error


def _run(
    config: BridgeConfig,
    work: Callable[[Context], Awaitable[None]],
    *,
    different_scores: bool,
    feeding: bool = True,
) -> None:
    async def whole() -> int:
        with console.status(f"reading tasks: {config.tasks.source}"):
            catalog = await asyncio.to_thread(read_catalog, config.tasks)
        _told(catalog)
        async with opened(
            config,
            catalog,
            different_scores=different_scores,
            feeding=feeding,
            waiting=lambda holder: console.print(
                f"waiting: bridge {holder} works on run {config.run}", highlight=False
            ),
        ) as context:
            await work(context)
        return 0

    raise typer.Exit(_exit_code(whole))


def _told(catalog: Catalog) -> None:
    console.print(
        f"{len(catalog.train)} tasks to train on, {len(catalog.evaluation)} held out",
        highlight=False,
    )
    for one in catalog.unreadable:
        console.print(f"[yellow]unreadable[/] {escape(str(one))}", highlight=False)


def _exit_code(work: Callable[[], Awaitable[int]]) -> int:
    """Run it; SIGTERM and SIGINT end it in an orderly way, errors are told in one line."""

    async def stoppable() -> int:
        task = asyncio.ensure_future(work())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with suppress(asyncio.CancelledError):
            return await task
        console.print("stopped; start it again and it goes on")
        return STOPPED

    try:
        return asyncio.run(stoppable())
    except ConfigException as error:
        _failed(
            f"no cluster: {error}; set KUBECONFIG to a kubeconfig of your cluster, and see whether "
            "`kubectl cluster-info` answers"
        )
        return 1
    except _ERRORS as error:
        _failed(error)
        return 1


def _failed(why: object) -> None:
    console.print(f"[red]error:[/] {escape(str(why))}", highlight=False, soft_wrap=True)
