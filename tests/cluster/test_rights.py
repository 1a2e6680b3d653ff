"""What the API server lets the chart's accounts do: what their Roles say, and nothing else."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from episode_operator.kube.client import KubernetesClient
from tests.chart.cases import ATROPOS, ELSEWHERE, Manifest
from tests.chart.rights import Account, Right, granted, of_rules
from tests.cluster import kubectl
from tests.cluster.episodes import Episodes
from tests.testbed import chart, stack

_RULES_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
_ACCESS_REVIEW = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_RIGHTS = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
_AT_ONCE = 8

EVERY_ACCOUNTS = {
    Right("authentication.k8s.io", "selfsubjectreviews", "", "create"),
    Right("authorization.k8s.io", "selfsubjectaccessreviews", "", "create"),
    Right("authorization.k8s.io", "selfsubjectrulesreviews", "", "create"),
}
"""Kubernetes lets everybody ask what they are and what they may."""

RBAC = "rbac.authorization.k8s.io"
NOBODYS = (
    Right("*", "*", "", "*"),
    *(Right("", "nodes", "", verb) for verb in ("get", "list", "patch", "delete")),
    Right("", "nodes/proxy", "", "get"),
    *(Right("", "namespaces", "", verb) for verb in ("create", "patch", "delete")),
    *(Right("", "secrets", "", verb) for verb in ("list", "watch", "create", "patch", "delete")),
    *(Right("", "configmaps", "", verb) for verb in ("update", "deletecollection")),
    *(Right("", "pods", "", verb) for verb in ("update", "patch", "deletecollection")),
    *(Right("", f"pods/{sub}", "", "create") for sub in ("attach", "portforward", "binding")),
    *(Right("", f"pods/{sub}", "", "create") for sub in ("eviction", "proxy")),
    *(Right("", f"pods/{sub}", "", "patch") for sub in ("ephemeralcontainers", "resize", "status")),
    Right("", "pods/log", "", "get"),
    Right("", "serviceaccounts", "", "create"),
    Right("", "serviceaccounts/token", "", "create"),
    *(Right("", kind, "", "impersonate") for kind in ("users", "groups", "serviceaccounts")),
    *(Right("", kind, "", "create") for kind in ("services", "endpoints", "resourcequotas")),
    *(Right("", kind, "", "create") for kind in ("persistentvolumes", "persistentvolumeclaims")),
    *(
        Right(RBAC, kind, "", verb)
        for kind in ("roles", "clusterroles")
        for verb in ("create", "patch", "escalate", "bind")
    ),
    *(Right(RBAC, kind, "", "create") for kind in ("rolebindings", "clusterrolebindings")),
    *(Right("apps", kind, "", "create") for kind in ("deployments", "daemonsets", "statefulsets")),
    *(Right("batch", kind, "", "create") for kind in ("jobs", "cronjobs")),
    Right("authentication.k8s.io", "tokenreviews", "", "create"),
    Right("authorization.k8s.io", "subjectaccessreviews", "", "create"),
    Right("authorization.k8s.io", "localsubjectaccessreviews", "", "create"),
    Right("certificates.k8s.io", "certificatesigningrequests", "", "create"),
    Right("certificates.k8s.io", "signers", "", "approve"),
    *(Right("apiextensions.k8s.io", "customresourcedefinitions", "", v) for v in ("get", "patch")),
    Right("apiregistration.k8s.io", "apiservices", "", "create"),
    Right("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "create"),
    Right("admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "create"),
    Right("discovery.k8s.io", "endpointslices", "", "list"),
    Right("discovery.k8s.io", "endpointslices", "another", "get"),
    *(Right("networking.k8s.io", "networkpolicies", "", verb) for verb in ("update", "patch")),
    *(Right("episodes.dev", "episodes", "", verb) for verb in ("update", "patch")),
    *(Right("episodes.dev", "episoderesults", "", verb) for verb in ("update", "patch")),
    *(
        Right("episodes.dev", kind, "", "deletecollection")
        for kind in ("episodes", "episoderesults")
    ),
    Right("coordination.k8s.io", "leases", "", "update"),
    Right("coordination.k8s.io", "leases", "another", "update"),
)
"""What no account of the chart may do, anywhere."""


@dataclass(frozen=True)
class Installed:
    """A release's Roles as they are on the cluster.

    Attributes:
        made: its manifests.
        accounts: component -> its account; without rights it is its namespace's default one.
        places: what a namespace is for the release -> its name.
    """

    made: Sequence[Manifest]
    accounts: Mapping[str, Account]
    places: Mapping[str, str]


@pytest.fixture(scope="module")
async def testbeds(client: KubernetesClient) -> AsyncIterator[Installed]:
    """The testbed's own release, which watches all namespaces."""
    made = await asyncio.to_thread(chart.manifests, stack.RELEASE, stack.NAMESPACE, {}, hooks=False)
    async with Episodes.in_namespace(client) as other:
        yield Installed(
            made,
            {
                "operator": Account(stack.NAMESPACE, stack.RELEASE),
                "vllm": Account(stack.NAMESPACE, "default"),
            },
            {
                "release": stack.NAMESPACE,
                "other": other.namespace,
                "default": "default",
                "system": "kube-system",
            },
        )


@pytest.fixture(scope="module")
async def narrow(client: KubernetesClient) -> AsyncIterator[Installed]:
    """The rights, and nothing else, of a release that watches one namespace."""
    async with (
        Episodes.in_namespace(client) as own,
        Episodes.in_namespace(client) as watched,
        Episodes.in_namespace(client) as run,
    ):
        release = f"rights-{uuid.uuid4().hex[:8]}"
        config = {**ELSEWHERE["config"], "namespace": run.namespace}
        values = {
            "operator": {"watchNamespaces": [watched.namespace], "secretReferences": True},
            "bridge": {**ELSEWHERE, "config": config},
            "vllm": {"enabled": True},
            "atropos": ATROPOS,
        }
        made = await asyncio.to_thread(chart.manifests, release, own.namespace, values, hooks=False)
        made = [one for one in made if one["kind"] in _RIGHTS]
        text = yaml.safe_dump_all(made)
        try:
            await kubectl.check("create", "-f", "-", stdin=text)
            found = Installed(
                made,
                {
                    "operator": Account(own.namespace, release),
                    "bridge": Account(own.namespace, f"{release}-bridge"),
                    "vllm": Account(own.namespace, "default"),
                    "atropos": Account(own.namespace, "default"),
                },
                {
                    "release": own.namespace,
                    "watched": watched.namespace,
                    "run": run.namespace,
                    "default": "default",
                    "system": "kube-system",
                },
            )
            for account in found.accounts.values():
                for where in found.places.values():
                    await until_seen(account, where, granted(made, account, where))
            yield found
        finally:
            await kubectl.check("delete", "--ignore-not-found", "-f", "-", stdin=text)


@pytest.fixture(scope="module", params=["testbeds", "narrow"])
def installed(request: pytest.FixtureRequest) -> Installed:
    """Each of the two."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Installed)
    return found


async def effective(account: Account, where: str) -> set[Right]:
    """All that the account may do in the namespace, as the API server itself tells it."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": where},
    }
    answer = json.loads(
        await kubectl.check(
            *("create", f"--raw={_RULES_REVIEW}", "-f", "-", f"--as={account.user}"),
            stdin=json.dumps(review),
        )
    )
    return set(of_rules(answer["status"].get("resourceRules") or []))


async def allowed(
    client: KubernetesClient, account: Account, where: str, rights: Iterable[Right]
) -> set[Right]:
    """Which of these the API server would let the account do, asked one by one."""
    places = asyncio.Semaphore(_AT_ONCE)
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{account.namespace}")

    async def ask(right: Right) -> bool:
        resource, _, subresource = right.resource.partition("/")
        attributes: dict[str, Any] = {
            "namespace": where,
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "name": right.name,
        }
        spec = {
            "user": account.user,
            "groups": [*groups, "system:authenticated"],
            "resourceAttributes": attributes,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        }
        async with places:
            answer = await client.request("POST", _ACCESS_REVIEW, body=review)
        return bool(answer["status"]["allowed"])

    asked = list(rights)
    answers = await asyncio.gather(*(ask(right) for right in asked))
    return {right for right, yes in zip(asked, answers, strict=True) if yes}


async def test_accounts_may_exactly_what_their_roles_say(installed: Installed) -> None:
    for component, account in installed.accounts.items():
        for place, where in installed.places.items():
            expected = granted(installed.made, account, where)
            found = await effective(account, where)
            assert found - EVERY_ACCOUNTS == expected, f"{component} in {place}"


async def test_each_right_is_granted_to_whom_it_is_for_where_it_is_for(
    client: KubernetesClient, installed: Installed
) -> None:
    """By another way: the rights of all accounts in all namespaces, asked of each one by one."""
    rights = {
        (account, where): granted(installed.made, account, where)
        for account in installed.accounts.values()
        for where in installed.places.values()
    }
    asked = {right for each in rights.values() for right in each}
    for (account, where), expected in rights.items():
        assert await allowed(client, account, where, asked) == expected, f"{account} in {where}"


async def test_what_nobody_may_is_refused(client: KubernetesClient, installed: Installed) -> None:
    for component, account in installed.accounts.items():
        for place, where in installed.places.items():
            found = await allowed(client, account, where, NOBODYS)
            assert found == set(), f"{component} in {place}"


async def test_secrets_are_read_only_by_an_operator_that_may_and_only_where_it_watches(
    client: KubernetesClient, testbeds: Installed, narrow: Installed
) -> None:
    get = [Right("", "secrets", "", "get")]
    for installed in (testbeds, narrow):
        for component, account in installed.accounts.items():
            for place, where in installed.places.items():
                may = bool(await allowed(client, account, where, get))
                assert may is ((component, place) == ("operator", "watched"))


async def test_kubectl_says_the_same(testbeds: Installed) -> None:
    """As a person would ask."""
    account = testbeds.accounts["operator"]
    questions = {"create pods": "yes", "get secrets": "no", "patch episodes.episodes.dev": "no"}
    for question, answer in questions.items():
        ran = await kubectl.run(
            *("auth", "can-i", *question.split(), "-n", testbeds.places["other"]),
            f"--as={account.user}",
        )
        assert ran.stdout.strip() == answer, question


async def test_a_right_that_was_added_is_seen(client: KubernetesClient, narrow: Installed) -> None:
    """The checks above can fail: one more Role, and the account may more than they expect."""
    account, where = narrow.accounts["bridge"], narrow.places["watched"]
    role = ("role", "more", "--verb=get", "--resource=secrets", "--resource-name=one")
    await kubectl.check("create", *role, "-n", where)
    binding = ("rolebinding", "more", "--role=more")
    subject = f"--serviceaccount={account.namespace}:{account.name}"
    await kubectl.check("create", *binding, subject, "-n", where)
    try:
        extra = Right("", "secrets", "one", "get")
        await until_seen(account, where, {extra})
        assert await allowed(client, account, where, [extra]) == {extra}
    finally:
        await kubectl.check("delete", "role,rolebinding", "more", "-n", where)


async def until_seen(account: Account, where: str, rights: set[Right]) -> None:
    """The API server follows Roles by a watch: it heeds new ones a moment later."""
    async with asyncio.timeout(60):
        while not rights <= await effective(account, where):
            await asyncio.sleep(0.1)
