"""`episodectl run`."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer
import yaml
from rich.console import Console

from episode_operator.api.agent import AgentKind, Model
from episode_operator.kube.client import KubernetesClient, Object, Resource
from episodectl import episodes, specs
from episodectl.errors import CommandError
from episodectl.following import finished, print_ending
from episodectl.options import AsJson, Namespace, plain
from episodectl.running import PROGRAM, VERDICTS, on_cluster, reporting, say
from trainer_bridge.sources import Build

_TASK = "Task"
_OF_FLAGS = "Task of flags"
_AGENT = "Agent"


def run(
    *,
    folder: Annotated[
        Path | None,
        typer.Argument(help="A task's folder, or a file with one row. Without it, give flags."),
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="Image of the sandbox.", rich_help_panel=_TASK)
    ] = None,
    instruction: Annotated[
        str | None, typer.Option(help="What the agent is asked to do.", rich_help_panel=_OF_FLAGS)
    ] = None,
    workdir: Annotated[
        str | None, typer.Option(help="Working directory.", rich_help_panel=_OF_FLAGS)
    ] = None,
    setup: Annotated[
        Path | None,
        typer.Option(help="Shell script run before the agent.", rich_help_panel=_OF_FLAGS),
    ] = None,
    verifier: Annotated[
        list[Path] | None,
        typer.Option(
            help="The test: a .py file for pytest, else a test.sh that writes a reward; given "
            "again, files beside it in /tests.",
            rich_help_panel=_OF_FLAGS,
        ),
    ] = None,
    solution: Annotated[
        Path | None,
        typer.Option(
            help="Shell script that solves it, for --agent Oracle.", rich_help_panel=_OF_FLAGS
        ),
    ] = None,
    agent: Annotated[
        AgentKind, typer.Option(help="Who acts.", rich_help_panel=_AGENT)
    ] = AgentKind.MODEL,
    model: Annotated[
        str | None,
        typer.Option(
            help="URL/NAME of a vLLM server and of its model, for --agent Model.",
            rich_help_panel=_AGENT,
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Sampling temperature.", rich_help_panel=_AGENT)
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Most tokens of a turn.", rich_help_panel=_AGENT)
    ] = None,
    max_turns: Annotated[
        int | None, typer.Option(help="Turns after which it is graded.", rich_help_panel=_AGENT)
    ] = None,
    timeout: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=86_400,
            help="Seconds the agent may take; a folder's own limit goes before.",
            rich_help_panel=_AGENT,
        ),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(
            help="List of tool calls in YAML or JSON, for --agent Scripted.", rich_help_panel=_AGENT
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the Episode; a new one if not given.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE, a label of the Episode; repeatable.")
    ] = None,
    namespace: Namespace = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the manifest as YAML, and create nothing.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Create it, print its name, and do not wait.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run one Episode, from flags or a task's folder, and wait for its verdict.

    The exit code is 0 for Passed, 1 for Failed, 3 for NoVerdict, 2 if it could not be run. Stopped
    with Ctrl-C, the Episode goes on.
    """
    with reporting():
        acting = specs.agent(agent, script=script, seconds=timeout, max_turns=max_turns)
        sampled = _model(model, temperature=temperature, max_tokens=max_tokens)
        if folder is None:
            chosen = specs.checked_name(name or specs.unique("episode"))
            build = specs.of_flags(
                image=image,
                instruction=instruction,
                workdir=workdir,
                setup=setup,
                solution=solution,
                verifier=verifier or [],
                agent=acting,
                model=sampled,
            )
        else:
            if any((instruction, workdir, setup, solution, verifier)):
                raise CommandError(
                    "a folder has its own instruction, files and tests: leave out --instruction, "
                    "--workdir, --setup, --solution and --verifier"
                )
            task = specs.of_task(folder, image=image)
            if sampled is None and acting.kind is AgentKind.MODEL:
                raise CommandError("missing --model URL/NAME; --agent Oracle runs its solution")
            chosen = specs.checked_name(name or specs.unique(task.name))
            build = task.build(acting, prefix=chosen, model=sampled)
            for note in task.notes:
                say(f"note: {note}", "yellow")
        labels = specs.labels(label or [])
    if dry_run:
        typer.echo(_yaml(episodes.objects(chosen, build, namespace=namespace, labels=labels)))
        return
    made = on_cluster(lambda client: _create(client, namespace, chosen, build, labels))
    follow(made, detach=detach, as_json=as_json)


def follow(made: Object, *, detach: bool, as_json: bool) -> None:
    """Tell that an Episode is created; then `wait`, or where it is detached, print its name."""
    name, namespace = made["metadata"]["name"], made["metadata"]["namespace"]
    say(f"episode/{name} created in namespace {namespace}", "dim")
    if not detach:
        wait(name, namespace, as_json=as_json)
    typer.echo(name)
    say(f"follow it: {PROGRAM.get()} watch {name} -n {namespace}", "dim")


def wait(name: str, namespace: str, *, as_json: bool) -> NoReturn:
    """Wait for the verdict of an Episode, print it, and exit with its code."""
    program = PROGRAM.get()
    episode = on_cluster(
        lambda client: finished(client, namespace, name),
        interrupted=f"{name} goes on; follow it: {program} watch {name} -n {namespace}, or end it: "
        f"{program} cancel {name} -n {namespace}",
    )
    print_ending(Console(highlight=False), episode, as_json=plain(as_json))
    assert episode.status.verdict is not None  # a finished Episode has one
    raise typer.Exit(VERDICTS[episode.status.verdict])


def _model(text: str | None, *, temperature: float | None, max_tokens: int | None) -> Model | None:
    if text is not None:
        return specs.model(text, temperature=temperature, max_tokens=max_tokens)
    if temperature is not None or max_tokens is not None:
        raise CommandError("--temperature and --max-tokens need --model URL/NAME")
    return None


async def _create(
    client: KubernetesClient,
    namespace: str | None,
    name: str,
    build: Build,
    labels: dict[str, str],
) -> Object:
    where = namespace or client.connection.namespace
    made = episodes.objects(name, build, namespace=where, labels=labels)
    return await episodes.create(client, made)


def _yaml(objects: list[tuple[Resource, Object]]) -> str:
    return yaml.safe_dump_all((body for _, body in objects), sort_keys=False).rstrip()
