"""`python -m episode_operator.api [--check]`: write what is generated from the models, or check it.

Run it in the repository's root: it writes crds/, the chart's copy of them,
docs/reference.md and docs/verdicts.md.
"""

from pathlib import Path
from typing import Annotated

import typer
import yaml

from episode_operator.api.crd import definitions
from episode_operator.api.reference import markdown, verdicts

_HEADER = "# Generated from operator/episode_operator/api by `make crds`; do not edit.\n"
_FOLDERS = (Path("crds"), Path("charts/episode-operator/files/crds"))
_REFERENCE = Path("docs/reference.md")
_VERDICTS = Path("docs/verdicts.md")


def generated() -> dict[Path, str]:
    """Path -> content of every generated file."""
    texts = {
        name: _HEADER + yaml.safe_dump(definition, sort_keys=False, width=100)
        for name, definition in definitions().items()
    }
    files = {folder / name: text for folder in _FOLDERS for name, text in texts.items()}
    return {**files, _REFERENCE: markdown(), _VERDICTS: verdicts()}


def main(check: Annotated[bool, typer.Option(help="Fail if a file differs.")] = False) -> None:
    """Write every generated file, or with --check exit 1 if one differs."""
    stale = []
    for path, text in generated().items():
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(str(path))
    if stale:
        typer.echo(f"differ from the models: {', '.join(stale)}; run `make crds`", err=True)
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
