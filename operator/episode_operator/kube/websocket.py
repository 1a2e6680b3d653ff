"""Websockets to the API server: for exec and port-forward."""

from typing import Any
from urllib.parse import urlencode

import aiohttp

from episode_operator.kube.client import ApiError, api_error
from episode_operator.kube.connection import KubernetesConnection

_MAX_MESSAGE = 4 << 20


async def connect(
    connection: KubernetesConnection,
    http: aiohttp.ClientSession,
    path: str,
    *,
    query: list[tuple[str, str]],
    protocols: tuple[str, ...],
) -> aiohttp.ClientWebSocketResponse:
    """Open one.

    Args:
        http: any client session; certificates and credentials come from `connection`.

    Raises:
        ApiError: the API server refused it, in its own words, or did not answer.
    """
    url = f"{connection.base_url}{path}?{urlencode(query)}"
    options: dict[str, Any] = {
        "headers": await connection.headers(),
        "ssl": connection.ssl or True,
        "server_hostname": connection.server_hostname,
        "proxy": connection.proxy,
    }
    try:
        opened: aiohttp.ClientWebSocketResponse = await http.ws_connect(
            url, protocols=protocols, max_msg_size=_MAX_MESSAGE, **options
        )
        return opened
    except aiohttp.WSServerHandshakeError as refused:
        # A handshake has no room for the reason, so ask again without one.
        try:
            async with http.get(url, **options) as answer:
                raise api_error(refused.status, await answer.read()) from refused
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiError(refused.status, "", repr(error)) from refused
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ApiError(0, "Unreachable", f"{path}: {error!r}") from error
