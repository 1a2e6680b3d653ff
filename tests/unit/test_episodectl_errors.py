"""Errors say what to do next."""

from pathlib import Path

import pytest

from episode_operator.kube.client import ApiError, NotFoundError
from episodectl.errors import NoClusterError, UnknownNameError, explained
from tests.unit import command_line
from tests.unit.command_line import invoke

REFUSED = (
    'episodes.episodes.dev is forbidden: User "ann" cannot list resource "episodes" in API group '
    '"episodes.dev"'
)


def forbidden(message: str) -> str:
    return explained(ApiError(403, "Forbidden", message))


def test_a_right_that_is_missing() -> None:
    told = forbidden(f'{REFUSED} in the namespace "space"')
    assert "you may not list episodes.episodes.dev in namespace space" in told
    assert "`kubectl auth can-i list episodes.episodes.dev -n space`" in told
    assert "can-i list episodes.episodes.dev --all-namespaces" in forbidden(
        f"{REFUSED} at the cluster scope"
    )
    told = forbidden(
        'pods "x" is forbidden: User "ann" cannot get resource "pods/log" in API group "" in the '
        'namespace "space"'
    )
    assert "can-i get pods/log -n space`" in told


def test_a_refusal_that_is_no_missing_right() -> None:
    told = forbidden("exceeded quota: small, requested: pods=1")
    assert told == "Forbidden: exceeded quota: small, requested: pods=1"


def test_a_cluster_without_episodes_or_without_an_answer() -> None:
    told = explained(NotFoundError(404, "", "404 page not found"))
    assert "install the chart: helm install" in told
    assert explained(NotFoundError(404, "NotFound", 'namespaces "x" not found')).endswith(
        'namespaces "x" not found'
    )
    assert "set KUBECONFIG" in explained(ApiError(0, "Unreachable", "GET /: refused"))
    assert "set KUBECONFIG" in str(NoClusterError("no file"))
    assert "kubectl auth whoami" in explained(ApiError(401, "Unauthorized", "Unauthorized"))


def test_names_that_are_close() -> None:
    known = ["hello-1", "hello-2", "other"]
    assert str(UnknownNameError("no Episode", "hello-3", "space", known)).endswith(
        "space has no Episode hello-3; did you mean hello-2 or hello-1?"
    )
    assert "-n NAMESPACE" in str(UnknownNameError("no Episode", "zzz", "space", known))


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("watch",),
        ("watch", "hello"),
        ("show", "hello"),
        ("cancel", "hello", "--yes"),
        ("retry", "hello"),
        ("export",),
        ("top",),
    ],
    ids=" ".join,
)
async def test_every_command_tells_it_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    result = await invoke(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("no cluster: ") and result.stderr.count("\n") == 1
    async with command_line.cluster(tmp_path, monkeypatch) as cluster:
        cluster.server.refuse = lambda method, path: (404, "404 page not found")
        result = await invoke(*command)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "install the chart" in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command", [("show",), ("watch",), ("cancel", "--yes"), ("retry",)], ids=" ".join
)
async def test_an_unknown_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    async with command_line.cluster(tmp_path, monkeypatch) as cluster:
        command_line.add(cluster, "hello-world")
        result = await invoke(*command, "hello-wrld")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("did you mean hello-world?\n")
