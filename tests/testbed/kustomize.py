"""`python -m tests.testbed.kustomize [--check]`: write the kustomize base, or check it.

Run it in the repository's root. The chart is the one source; what only Helm needs is left out.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from tests.testbed import chart

BASE = Path("charts/kustomize/operator.yaml")
RELEASE, NAMESPACE = "episodes", "episode-system"

_HEADER = "# Generated from charts/episode-operator by `make kustomize`; do not edit.\n"
_OF_HELM = ("app.kubernetes.io/managed-by", "helm.sh/chart")


def base() -> str:
    """The manifests of the operator as the chart installs it without any values."""
    values = {"crds": {"install": False}}
    manifests = chart.manifests(RELEASE, NAMESPACE, values, hooks=False)
    for manifest in manifests:
        _without_helm(manifest["metadata"]["labels"])
        if "template" in manifest.get("spec", {}):
            _without_helm(manifest["spec"]["template"]["metadata"]["labels"])
    return _HEADER + yaml.safe_dump_all(manifests, sort_keys=False, width=100)


def _without_helm(labels: dict[str, Any]) -> None:
    for name in _OF_HELM:
        del labels[name]


def main(check: Annotated[bool, typer.Option(help="Fail if the base differs.")] = False) -> None:
    """Write the base, or with --check exit 1 if it differs."""
    text = base()
    if not check:
        BASE.write_text(text)
    elif not BASE.exists() or BASE.read_text() != text:
        typer.echo(f"{BASE} differs from the chart; run `make kustomize`", err=True)
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
