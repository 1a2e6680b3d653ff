"""What the Roles of manifests let an account do, right by right."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.chart.cases import Manifest


class Right(NamedTuple):
    """One verb on one resource; `name` is empty where it is for all objects."""

    group: str
    resource: str
    """With its subresource: `pods/exec`."""

    name: str
    verb: str


class Account(NamedTuple):
    """A ServiceAccount."""

    namespace: str
    name: str

    @property
    def user(self) -> str:
        """Its name as a user of the API server."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


def of_rules(rules: Iterable[Mapping[str, Any]]) -> Iterator[Right]:
    """The rights of rules, those of Roles and of a SelfSubjectRulesReview alike."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames") or [""]:
                    for verb in rule["verbs"]:
                        yield Right(group, resource, name, verb)


def granted(made: Sequence[Manifest], account: Account, where: str) -> set[Right]:
    """What these manifests let the account do in a namespace, and in the whole cluster."""
    roles = {
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]): one["rules"]
        for one in made
        if one["kind"] in {"Role", "ClusterRole"}
    }
    found: set[Right] = set()
    for binding in made:
        if binding["kind"] not in {"RoleBinding", "ClusterRoleBinding"}:
            continue
        namespace = binding["metadata"].get("namespace")
        subjects = {Account(one["namespace"], one["name"]) for one in binding["subjects"]}
        if account in subjects and namespace in {where, None}:
            role = binding["roleRef"]
            place = namespace if role["kind"] == "Role" else None
            found |= set(of_rules(roles[role["kind"], place, role["name"]]))
    return found
