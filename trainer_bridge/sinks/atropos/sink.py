"""The sink: what the trainer wants, and groups posted to it."""

import asyncio
import gzip
import logging
import time
from typing import Any

import orjson

from trainer_bridge.sinks.atropos.client import AtroposClient, shown
from trainer_bridge.sinks.atropos.encoding import encode
from trainer_bridge.sinks.atropos.registration import Registration
from trainer_bridge.sinks.atropos.settings import AtroposSettings
from trainer_bridge.sinks.base import Demand, NotSentError, SinkError, UnknownArrivalError
from trainer_bridge.sinks.checks import (
    Refusal,
    check_group,
    check_lengths,
    check_messages,
    check_models,
    refuse,
)
from trainer_bridge.training import TrainingGroup

logger = logging.getLogger(__name__)

_ABOUT_THE_GROUP = frozenset({400, 413, 422})
"""What a server answers because of what was posted; other refusals are of its door."""
_PATH = "/scored_data"


class AtroposSink:
    """Posts groups to an Atropos server, as one of its environments.

    A task asks the server all the time, so that a restart is noticed whenever it happens.
    """

    def __init__(self, settings: AtroposSettings) -> None:
        self._settings = settings
        self._client = AtroposClient(settings)
        self._registration = Registration(self._client, settings)
        self._closing = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._away: str | None = None
        self._warn_bytes = settings.warn_batch_bytes

    async def open(self) -> None:
        """Begin to ask the server; returns at once."""
        await self._client.open()
        self._watch = asyncio.create_task(self._keep_watching())

    async def demand(self) -> Demand:
        """What is wanted now, as of the server's last answer.

        Raises:
            SinkError: the server would never hand out groups of this size; it says what to change.
        """
        assert self._watch is not None, "open() comes first"
        if self._watch.done():
            self._watch.result()
        found = self._registration
        if found.misfit is not None:
            raise SinkError(found.misfit)
        environment, standing, lost = found.usable, found.standing, found.take_lost()
        if environment is None or standing is None or found.info is None:
            return Demand(groups=0, step=found.step, lost=lost)
        steps = environment.answer.num_steps
        if 0 < steps <= standing.current_step:
            return Demand(groups=0, step=standing.current_step, lost=lost, finished=True)
        size = self._settings.group_size
        most = self._settings.max_batches_offpolicy * found.info.batch_size
        room = (most - standing.queue_size * size) // size - found.sent
        return Demand(groups=max(0, room), step=standing.current_step, lost=lost)

    def check(self, group: TrainingGroup) -> None:
        """Look at every length, shape, range and value, and at the way it was sampled.

        Raises:
            RefusedError: it must not be sent; for the reasons see `checks`.
        """
        check_group(group, size=self._settings.group_size)
        info, limit = self._registration.info, self._settings.max_token_length
        check_lengths(group, limit=min(limit, info.max_token_len) if info else limit)
        check_models(group)
        if self._settings.include_messages:
            check_messages(group)

    async def send(self, group: TrainingGroup) -> None:
        """Post a checked group; returns once the server has it in its queue.

        Raises:
            NotSentError: there is no trainer yet, or the connection was lost before.
            RefusedError: Malformed, or Rejected by the server.
            UnknownArrivalError: no answer, an error of the server, or the group is held in its
                buffer as one of another size; there it may stay for ever.
        """
        environment = self._registration.usable
        if environment is None or self._registration.misfit is not None:
            raise NotSentError(self._registration.misfit or "no trainer has started on Atropos")
        body = await asyncio.to_thread(self._body, group, environment.env_id)
        if environment is not self._registration.usable:
            raise NotSentError("Atropos was lost while the group was made ready")
        status, content = await self._client.post(
            _PATH,
            body,
            compressed=self._settings.gzip_level > 0,
            connection=environment.connection,
        )
        if status == 200 and _status(content) == "received":
            self._registration.took(group.name)
            return
        said = f"{_PATH} answered {status}: {shown(content)}"
        if status in _ABOUT_THE_GROUP:
            raise refuse(Refusal.REJECTED, group, said)
        if 300 <= status < 500:
            raise NotSentError(said)
        self._registration.doubt()
        raise UnknownArrivalError(f"{group.name}: {said}")

    async def arrived(self, group: TrainingGroup) -> bool | None:
        """True if the newest group that the server has is this one, in every value, else None.

        The server shows only its newest, so a group that was followed by another has no proof.
        """
        newest = await self._newest()
        if newest is None:
            return None
        ours = orjson.loads(await asyncio.to_thread(encode, group, 0, self._settings))
        if any(newest.get(name) != ours[name] for name in ours.keys() - {"env_id"}):
            return None
        self._registration.took(group.name)
        return True

    async def _newest(self) -> dict[str, Any] | None:
        """The newest group that the server has; None where it is away for long."""
        give_up = time.monotonic() + self._settings.proof_seconds
        while True:
            try:
                return await self._client.ask("GET", "/latest_example")
            except SinkError as error:
                if time.monotonic() >= give_up:
                    logger.warning("Atropos does not tell its newest group: %s", error)
                    return None
            await asyncio.sleep(self._settings.poll_seconds)

    async def close(self) -> None:
        """Disconnect the environment, so that no batch waits for it; errors are logged."""
        self._closing.set()
        try:
            if self._watch is not None:
                await self._watch
                await self._registration.leave()
        except SinkError as error:
            logger.warning("could not disconnect from Atropos: %s", error)
        finally:
            await self._client.close()

    def _body(self, group: TrainingGroup, env_id: int) -> bytes:
        body = encode(group, env_id, self._settings)
        self._warn_if_large(len(body))
        level = self._settings.gzip_level
        return gzip.compress(body, level) if level else body

    def _warn_if_large(self, group_bytes: int) -> None:
        """Once, and again for each that is twice as large."""
        info = self._registration.info
        if info is None:
            return
        batch = group_bytes * info.batch_size // self._settings.group_size
        if batch > self._warn_bytes:
            self._warn_bytes = 2 * batch
            logger.warning(
                "a batch of groups such as the last is %.1f MB of JSON; Atropos stands still while "
                "the trainer fetches it, and its client needs a long time limit. Smaller: fewer "
                "distill_top_k, logprob_decimals, a smaller batch",
                batch / 1e6,
            )

    async def _keep_watching(self) -> None:
        while not self._closing.is_set():
            try:
                await self._registration.refresh()
                self._say_away(None)
            except SinkError as error:
                self._say_away(str(error))
            try:
                async with asyncio.timeout(self._settings.poll_seconds):
                    await self._closing.wait()
            except TimeoutError:
                continue

    def _say_away(self, text: str | None) -> None:
        """Once for each change."""
        if text is not None and self._away is None:
            logger.warning("Atropos is away: %s", text)
        elif text is None and self._away is not None:
            logger.info("Atropos is back")
        self._away = text


def _status(content: bytes) -> object:
    try:
        answer = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return answer.get("status") if isinstance(answer, dict) else None
