"""Credentials of every kind against the real API server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from episode_operator.kube import connection
from episode_operator.kube.connection import KubernetesConnection
from tests.cluster import kubectl


async def who(found: KubernetesConnection) -> str:
    """The name by which the API server knows us."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    url = f"{found.base_url}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    async with (
        aiohttp.ClientSession() as http,
        http.post(url, json=body, headers=await found.headers(), ssl=found.ssl or True) as answer,
    ):
        assert answer.status == 201, await answer.text()
        name: str = (await answer.json())["status"]["userInfo"]["username"]
        return name


async def token(account: str, namespace: str) -> str:
    await kubectl.check("create", "serviceaccount", account, "-n", namespace)
    return (await kubectl.check("create", "token", account, "-n", namespace)).strip()


async def kubeconfig(path: Path, namespace: str, user: dict[str, Any]) -> None:
    """A kubeconfig for the same cluster with another user and a namespace."""
    text = await kubectl.check("config", "view", "--raw", "--minify", "-o", "json")
    config = json.loads(text)
    config["users"] = [{"name": "test", "user": user}]
    config["contexts"][0]["context"].update(user="test", namespace=namespace)
    await asyncio.to_thread(path.write_text, yaml.safe_dump(config))


async def test_a_client_certificate() -> None:
    assert await who(await connection.load()) != "system:anonymous"


async def test_a_token_file_that_rotates(
    tmp_path: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = [await token(account, namespace) for account in ("first", "second")]
    file = tmp_path / "token"
    file.write_text(tokens[0] + "\n")
    await kubeconfig(tmp_path / "config", namespace, {"tokenFile": str(file)})
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(connection, "_REFRESH_SECONDS", 0.0)
    found = await connection.load()
    assert found.namespace == namespace
    assert await who(found) == f"system:serviceaccount:{namespace}:first"
    file.write_text(tokens[1] + "\n")
    assert await who(found) == f"system:serviceaccount:{namespace}:second"


async def test_a_plugin(tmp_path: Path, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": await token("plugged", namespace)},
    }
    (tmp_path / "credential.json").write_text(json.dumps(credential))
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "cat",
        "args": [str(tmp_path / "credential.json")],
        "interactiveMode": "Never",
    }
    await kubeconfig(tmp_path / "config", namespace, {"exec": plugin})
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert await who(await connection.load()) == f"system:serviceaccount:{namespace}:plugged"
