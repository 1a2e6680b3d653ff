"""`python -m episode_operator.api FOLDER... [--check]`: write the CRDs, or check for drift."""

from pathlib import Path
from typing import Annotated

import typer
import yaml

from episode_operator.api.crd import definitions

_HEADER = "# Generated from operator/episode_operator/api by `make crds`; do not edit.\n"


def main(
    folders: list[Path],
    check: Annotated[bool, typer.Option(help="Fail if a file differs.")] = False,
) -> None:
    """Write every CRD into each FOLDER, or with --check exit 1 if one differs."""
    stale = []
    for name, definition in definitions().items():
        text = _HEADER + yaml.safe_dump(definition, sort_keys=False, width=100)
        for path in (folder / name for folder in folders):
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
