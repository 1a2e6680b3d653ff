"""The command line `episodectl`, which is also a plugin of kubectl: `kubectl episode`."""

import logging
import os
import shlex
import sys

import typer

from episodectl.commands.ending import cancel, retry
from episodectl.commands.export import export
from episodectl.commands.golden import golden
from episodectl.commands.listing import list_episodes, watch
from episodectl.commands.logs import logs
from episodectl.commands.run import run
from episodectl.commands.show import show
from episodectl.commands.top import top
from episodectl.commands.ui import ui
from episodectl.running import PROGRAM

_PLUGIN = "kubectl episode"
_COMPLETION = "_EPISODECTL_COMPLETE"
_OTHERWISE_FILES = ":0"
"""What kubectl takes as: complete with these, and with files if there are none."""


def _main(context: typer.Context) -> None:
    """Work with tasks and Episodes."""
    PROGRAM.set(context.info_name or PROGRAM.get())
    # A request that is tried again is no news; one that fails in the end is an error of ours.
    logging.getLogger("stamina").setLevel(logging.ERROR)


def _application(*, add_completion: bool) -> typer.Typer:
    made = typer.Typer(
        no_args_is_help=True, add_completion=add_completion, pretty_exceptions_enable=False
    )
    made.callback()(_main)
    made.command()(run)
    made.command("list")(list_episodes)
    for command in (watch, logs, show, ui, cancel, retry, golden, export, top):
        made.command()(command)
    return made


app = _application(add_completion=True)


def kubectl_plugin() -> None:
    """The program `kubectl-episode`, which kubectl runs as `kubectl episode`."""
    # Its completion is kubectl's, by the program below; the options that install one would not fit.
    _application(add_completion=False)(prog_name=_PLUGIN)


def kubectl_completion() -> None:
    """The program `kubectl_complete-episode`: kubectl gives it the words after `episode`."""
    words = sys.argv[1:]
    os.environ |= {
        _COMPLETION: "complete_bash",
        "COMP_WORDS": shlex.join(["episode", *words]),
        "COMP_CWORD": str(len(words)),
    }
    try:
        app(prog_name=_PLUGIN, complete_var=_COMPLETION)
    finally:
        typer.echo(_OTHERWISE_FILES)
