"""New weights for a vLLM that keeps running (`VLLM_SERVER_DEV_MODE=1`)."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from examples.trainer.errors import TrainerError
from examples.trainer.http import NO_KEEP_ALIVE
from examples.trainer.stopping import Stopping

_FILES: Final = ("config.json", "model.safetensors")
_POLL_SECONDS: Final = 1.0
_TIMEOUT: Final = httpx.Timeout(600.0, connect=10.0)


class WeightsError(TrainerError):
    """The server did not take the weights."""


class Weights:
    """The way of weights to one server.

    Args:
        url: base URL of vLLM.
        folder: where a folder for each version is put.
        on_server: the same folder as the server sees it.
        stopping: ends the waiting for a server that is away.
    """

    def __init__(self, url: str, *, folder: Path, on_server: str, stopping: Stopping) -> None:
        self._http = httpx.Client(base_url=url, timeout=_TIMEOUT, limits=NO_KEEP_ALIVE)
        self._folder = folder
        self._on_server = on_server
        self._stopping = stopping

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def push(self, source: Path, version: str) -> float:
        """Load the weights of a checkpoint and name them; requests under way are frozen meanwhile.

        Older versions are removed from the folder.

        Returns:
            the seconds in which nothing was sampled.

        Raises:
            WeightsError: the server refused or was lost. It samples again; with which weights is
                not known until the next push.
        """
        self._place(source, version)
        self._wait_until_ready()
        with self._paused() as began:
            body = {"weights_path": f"{self._on_server}/{version}"}
            self._post("/collective_rpc", {"method": "reload_weights", "kwargs": body})
            self._reset_cache()
            self._post("/update_weight_version", {"new_version": version})
        seconds = time.monotonic() - began
        for older in self._folder.glob("step-*"):
            if older.name != version:
                shutil.rmtree(older)
        return seconds

    def _place(self, source: Path, version: str) -> None:
        """Linked where the file system can, else copied; readable by a server of another user."""
        target = self._folder / version
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        target.chmod(0o755)
        for name in _FILES:
            (source / name).chmod(0o644)
            try:
                os.link(source / name, target / name)
            except OSError:
                shutil.copy(source / name, target / name)

    def _wait_until_ready(self) -> None:
        told = False
        while (why := self._unready()) is not None:
            if self._stopping.requested:
                raise WeightsError(f"stopped while vLLM was away ({why}); start again to push")
            if not told:
                print(f"waiting for vLLM: {why}", flush=True)
            told = True
            self._stopping.wait(_POLL_SECONDS)

    def _unready(self) -> str | None:
        try:
            status = self._http.get("/health").status_code
        except httpx.TransportError as error:
            return str(error) or type(error).__name__
        return None if status == 200 else f"/health answered {status}"

    @contextmanager
    def _paused(self) -> Iterator[float]:
        try:
            self._post("/pause", params={"mode": "keep"})
            yield time.monotonic()
        except Exception as error:
            try:
                self._post("/resume")
            except WeightsError as second:
                raise WeightsError(f"{error}; and it still is paused: {second}") from error
            raise
        self._post("/resume")

    def _reset_cache(self) -> None:
        answer = self._post("/reset_prefix_cache", params={"reset_running_requests": "true"})
        if answer.json().get("success") is not True:
            raise WeightsError("vLLM did not drop its prefix cache, which is of other weights")

    def _post(
        self, path: str, body: Any = None, params: dict[str, str] | None = None
    ) -> httpx.Response:
        try:
            answer = self._http.post(path, json=body, params=params)
        except httpx.TransportError as error:
            said = str(error) or type(error).__name__
            raise WeightsError(f"vLLM was lost at {path}: {said}") from error
        if answer.status_code == 404:
            raise WeightsError(f"vLLM has no {path}; start it with VLLM_SERVER_DEV_MODE=1")
        if answer.status_code != 200:
            raise WeightsError(f"{path} answered {answer.status_code}: {answer.text[:300]}")
        return answer
