"""What went wrong, in words that say what to do next."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from http import HTTPStatus

from pydantic import ValidationError

from episode_operator.kube.client import ApiError, NotFoundError
from episode_operator.results import record
from episode_operator.results.finding import RecordError
from trainer_bridge.sinks.base import SinkError
from trainer_bridge.sources import Unreadable

UNREADABLE = (RecordError, *record.UNREADABLE, ValidationError)
"""Why a result cannot be read."""

_FORBIDDEN = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_NO_SUCH_API = "404 page not found"
_PROPOSED = 3


class CommandError(Exception):
    """What was asked for cannot be done; the text says why and what to do."""


class NoClusterError(CommandError):
    """There is no kubeconfig, or none that can be used."""

    def __init__(self, why: object) -> None:
        super().__init__(
            f"no cluster: {why}; set KUBECONFIG to a kubeconfig of your cluster, and see whether "
            "`kubectl cluster-info` answers"
        )


class UnknownNameError(CommandError):
    """There is no object of that name; names that are like it are proposed."""

    def __init__(self, what: str, name: str, namespace: str, known: Iterable[str]) -> None:
        close = get_close_matches(name, list(known), n=_PROPOSED)
        proposed = (
            f"did you mean {' or '.join(close)}?"
            if close
            else "-n NAMESPACE looks in another namespace"
        )
        super().__init__(f"namespace {namespace} has {what} {name}; {proposed}")


KNOWN = (ApiError, CommandError, SinkError, Unreadable, *UNREADABLE)
"""Errors that are told in a line; any other is a mistake in this program."""


def explained(error: Exception) -> str:
    """The error with a next step, where its own text has none."""
    return _explained_answer(error) if isinstance(error, ApiError) else str(error)


def _explained_answer(error: ApiError) -> str:
    if error.status == 0:
        return str(NoClusterError(error.message))
    if error.status == HTTPStatus.UNAUTHORIZED:
        return (
            f"the cluster does not accept your credentials: {error}; log in again, and see what "
            "`kubectl auth whoami` says"
        )
    if error.status == HTTPStatus.FORBIDDEN and (refused := _FORBIDDEN.search(error.message)):
        return _forbidden(error, refused)
    if isinstance(error, NotFoundError) and _NO_SUCH_API in error.message:
        return (
            "the cluster knows no Episodes; install the chart: helm install episodes "
            "charts/episode-operator --namespace episode-system --create-namespace"
        )
    return str(error)


def _forbidden(error: ApiError, refused: re.Match[str]) -> str:
    plural, _, subresource = refused["resource"].partition("/")
    resource = ".".join(part for part in (plural, refused["group"]) if part)
    resource += f"/{subresource}" if subresource else ""
    namespace = refused["namespace"]
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    option = f"-n {namespace}" if namespace else "--all-namespaces"
    return (
        f"you may not {refused['verb']} {resource} {where}: {error.message}; check with "
        f"`kubectl auth can-i {refused['verb']} {resource} {option}`, and ask who runs the cluster "
        "for a Role with that verb"
    )
