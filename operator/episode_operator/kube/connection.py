"""Where the API server is and how to prove who we are: kubeconfig or in-cluster."""

from __future__ import annotations

import asyncio
import os
import ssl as tls
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import yaml
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client import Configuration

_REFRESH_SECONDS = 60.0

Headers = Callable[[], Awaitable[dict[str, str]]]


@dataclass(frozen=True, slots=True)
class KubernetesConnection:
    """Access to one API server. Whoever wants an HTTP client makes one from it.

    Attributes:
        base_url: without a slash at its end.
        ssl: certificate authority and client certificate; None for plain HTTP.
        headers: gives the authorization header, with a fresh token each time.
        server_hostname: the name to expect in the server's certificate, if not the URL's.
        proxy: URL of an HTTP proxy, or None.
        namespace: the namespace of the kubeconfig's context, or of this pod.
    """

    base_url: str
    ssl: tls.SSLContext | None
    headers: Headers
    server_hostname: str | None = None
    proxy: str | None = None
    namespace: str = "default"


async def load() -> KubernetesConnection:
    """Credentials from KUBECONFIG, else the pod's service account, else ~/.kube/config.

    Raises:
        kubernetes.aio.config.ConfigException: there are none, or they are malformed.
    """
    in_cluster = "KUBERNETES_SERVICE_HOST" in os.environ
    if "KUBECONFIG" in os.environ or not in_cluster:
        return await _from_kubeconfig(os.environ.get("KUBECONFIG", "~/.kube/config"))
    configuration = Configuration()
    kubernetes_config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
    namespace = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

    async def headers() -> dict[str, str]:
        return await _authorization(configuration)

    return await _connection(configuration, headers, _read_namespace(namespace))


async def _from_kubeconfig(path: str) -> KubernetesConnection:
    configuration = Configuration()
    try:
        loader = await kubernetes_config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=path,
            client_configuration=configuration,
            persist_config=False,
        )
    except (TypeError, yaml.YAMLError) as error:  # as the loader meets what is no mapping
        raise kubernetes_config.ConfigException(f"{path} is no kubeconfig: {error}") from error
    refresh = _Refresh(lambda: loader.load_and_set(configuration))

    async def headers() -> dict[str, str]:
        await refresh.when_due()
        return await _authorization(configuration)

    context = loader.current_context.get("context", {})
    return await _connection(configuration, headers, context.get("namespace") or "default")


class _Refresh:
    """Runs the loader again now and then: it reads token files anew and asks exec plugins again."""

    def __init__(self, action: Callable[[], Awaitable[None]]) -> None:
        self._action = action
        self._due = time.monotonic() + _REFRESH_SECONDS
        self._lock = asyncio.Lock()

    async def when_due(self) -> None:
        async with self._lock:
            if time.monotonic() >= self._due:
                await self._action()
                self._due = time.monotonic() + _REFRESH_SECONDS


async def _authorization(configuration: Configuration) -> dict[str, str]:
    token = await configuration.get_api_key_with_prefix("BearerToken")
    return {"Authorization": token.strip()} if token else {}


async def _connection(
    configuration: Configuration, headers: Headers, namespace: str
) -> KubernetesConnection:
    url = str(configuration.host).rstrip("/")
    context = None
    if url.startswith("https"):
        context = tls.create_default_context(cafile=configuration.ssl_ca_cert)
        # Certificates of clusters are often older than this check, which Python 3.13 turned on.
        context.verify_flags &= ~tls.VERIFY_X509_STRICT
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = tls.CERT_NONE
    return KubernetesConnection(
        base_url=url,
        ssl=context,
        headers=headers,
        server_hostname=configuration.tls_server_name,
        proxy=configuration.proxy,
        namespace=namespace,
    )


def _read_namespace(path: Path) -> str:
    return path.read_text().strip() if path.exists() else "default"
