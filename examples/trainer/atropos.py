"""A trainer's side of an Atropos server (atroposlib 0.4.0).

The server keeps all it knows in memory. It makes a batch while it is asked for one, answers nobody
meanwhile, and forgets the batch as it answers; so there is all the time for an answer.
"""

from typing import Any, Final

import httpx

from examples.trainer.errors import TrainerError
from examples.trainer.http import NO_KEEP_ALIVE
from examples.trainer.stopping import Stopping

_POLL_SECONDS: Final = 0.5
_AWAY_SECONDS: Final = 2.0
_TIMEOUT: Final = httpx.Timeout(1800.0, connect=10.0)


class AtroposError(TrainerError):
    """The server answers what it should not, or was registered by somebody else."""


class Atropos:
    """One server. Waits while it is away; `stopping` ends the waiting."""

    def __init__(
        self,
        url: str,
        *,
        batch_size: int,
        max_token_length: int,
        num_steps: int,
        checkpoint_dir: str,
        stopping: Stopping,
    ) -> None:
        self._http = httpx.Client(base_url=url, timeout=_TIMEOUT, limits=NO_KEEP_ALIVE)
        self._stopping = stopping
        self._away = False
        self._registration = {
            "wandb_group": "trainer",
            "wandb_project": "trainer",
            "batch_size": batch_size,
            "max_token_len": max_token_length,
            "checkpoint_dir": checkpoint_dir,
            "save_checkpoint_interval": 1,
            "num_steps": num_steps,
        }

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def register(self, step: int) -> None:
        """Make the trainer known, which has taken so many steps. The server may know one already.

        Raises:
            AtroposError: the server has another batch size or length, of an earlier trainer.
        """
        body = {**self._registration, "starting_step": step}
        answer = self._ask("POST", "/register", json=body)
        if answer is None:
            return
        _object(answer)
        info = self._info()
        for name in ("batch_size", "max_token_len"):
            if info is not None and info.get(name) != body[name]:
                raise AtroposError(
                    f"Atropos works with {name} {info.get(name)} of an earlier trainer, not with "
                    f"{body[name]}; restart it, or use that"
                )

    def batch(self, step: int) -> bytes | None:
        """What `/batch` answered with the next batch; None once the run is asked to end.

        Registers again where the server was restarted.

        Raises:
            AtroposError: the server cannot hand the batch out.
        """
        while not self._stopping.requested:
            answer = self._ask("GET", "/batch")
            if answer is None:
                return None
            if answer.status_code == 200 and _object(answer).get("batch"):
                return answer.content
            if answer.status_code != 200 or _object(answer).get("status") == "error":
                self._forgotten(answer, step)
            self._stopping.wait(_POLL_SECONDS)
        return None

    def _forgotten(self, answer: httpx.Response, step: int) -> None:
        info = self._info()
        if info is None:
            return
        if info.get("batch_size", 0) > 0:
            raise AtroposError(
                f"Atropos cannot hand a batch out, and has lost it ({_said(answer)}); look for an "
                "environment that sends NaN. Start the trainer again to go on"
            )
        print("Atropos was restarted; registering again", flush=True)
        self.register(step)

    def _info(self) -> dict[str, Any] | None:
        answer = self._ask("GET", "/info")
        return None if answer is None else _object(answer)

    def _ask(self, method: str, path: str, **body: Any) -> httpx.Response | None:
        """The answer, however long the server is away; None once the run is asked to end."""
        while not self._stopping.requested:
            try:
                answer = self._http.request(method, path, **body)
            except httpx.TransportError as error:
                if not self._away:
                    said = str(error) or type(error).__name__
                    print(f"waiting for Atropos: {path}: {said}", flush=True)
                self._away = True
                self._stopping.wait(_AWAY_SECONDS)
            else:
                self._away = False
                return answer
        return None


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json() if answer.status_code == 200 else None
    except ValueError as error:
        raise AtroposError(f"this is not JSON: {_said(answer)}; check --atropos") from error
    if not isinstance(found, dict):
        raise AtroposError(f"this is not Atropos 0.4: {_said(answer)}; check --atropos")
    return found


def _said(answer: httpx.Response) -> str:
    return f"{answer.request.url} answered {answer.status_code}: {answer.text[:200]}"
