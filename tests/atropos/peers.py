"""The others at an Atropos server: its trainer, and environments that are not ours."""

from typing import Any

import aiohttp

Json = dict[str, Any]


class Peers:
    """Asks the server directly, past any proxy."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http = http
        self.url = url

    async def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        """The object that is answered."""
        async with self.http.request(method, self.url + path, json=body) as response:
            assert response.status == 200, await response.text()
            answer: Json = await response.json()
            return answer

    async def register_trainer(
        self,
        *,
        batch_size: int,
        max_token_len: int = 4096,
        starting_step: int = 0,
        num_steps: int = 100,
    ) -> None:
        """A trainer that has not started."""
        body = {
            "wandb_group": "tests",
            "wandb_project": "tests",
            "batch_size": batch_size,
            "max_token_len": max_token_len,
            "checkpoint_dir": "",
            "save_checkpoint_interval": 0,
            "starting_step": starting_step,
            "num_steps": num_steps,
        }
        await self.ask("POST", "/register", body)

    async def start_trainer(self, *, batch_size: int, **options: int) -> None:
        """A trainer that has asked for its first batch; there was none."""
        await self.register_trainer(batch_size=batch_size, **options)
        assert await self.batch() is None

    async def batch(self) -> list[Json] | None:
        """The next batch: groups, in the order they were posted."""
        found: list[Json] | None = (await self.ask("GET", "/batch"))["batch"]
        return found

    async def register_environment(self, *, group_size: int, weight: float = 1.0) -> int:
        """Another environment's id."""
        body = {
            "max_token_length": 4096,
            "desired_name": "another",
            "weight": weight,
            "group_size": group_size,
        }
        env_id: int = (await self.ask("POST", "/register-env", body))["env_id"]
        return env_id

    async def standing(self, env_id: int) -> Json:
        """How the server stands for an environment."""
        return await self.ask("GET", "/status-env", {"env_id": env_id})
