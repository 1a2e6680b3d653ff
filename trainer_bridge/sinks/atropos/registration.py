"""Being one of the server's environments, and staying the same one.

A server that was restarted gives out its ids again from 0, so an id may belong to another
environment by then. A registration is therefore good for one connection only (see client.py).
After that, and when the server answers as if it had forgotten us, the bridge registers again. The
answer tells how often its name, which nobody else has, was registered before: more often than the
last time means that the same server has been there all along.
"""

import logging
from dataclasses import dataclass

from trainer_bridge.sinks.atropos.answers import Info, Registered, Standing, read
from trainer_bridge.sinks.atropos.client import AnswerError, AtroposClient
from trainer_bridge.sinks.atropos.settings import AtroposSettings
from trainer_bridge.sinks.base import SinkError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Environment:
    """One registration, and the connection that it was made on."""

    answer: Registered
    connection: int

    @property
    def env_id(self) -> int:
        """What groups are posted with."""
        return self.answer.env_id


class Registration:
    """Registers, asks how the server stands, and registers again where it must.

    Attributes:
        info: what is known of the trainer; None while there is none.
        environment: the newest registration; None before the first.
        standing: the server's last answer; None when there is none that counts now.
        sent: groups that the server has taken since that answer.
        step: the trainer's step, as last known; None before a trainer has started.
    """

    def __init__(self, client: AtroposClient, settings: AtroposSettings) -> None:
        self.info: Info | None = None
        self.environment: Environment | None = None
        self.standing: Standing | None = None
        self.sent = 0
        self.step: int | None = None
        self._client = client
        self._settings = settings
        self._name = settings.name
        self._doubted = False
        self._waiting: list[str] = []
        self._lost: tuple[str, ...] = ()
        self._earlier: set[int] = set()
        self._leaving: set[int] = set()

    @property
    def usable(self) -> Environment | None:
        """The environment, if nothing speaks against its id."""
        environment = self.environment
        if environment is None or self._doubted:
            return None
        return environment if environment.connection == self._client.connections else None

    def doubt(self) -> None:
        """The server does not treat us as the environment that we registered."""
        self._doubted = True

    def took(self, group: str) -> None:
        """The server has a group: it is the last of its queue, until it goes into a batch."""
        self.sent += 1
        self._waiting.append(group)

    def take_lost(self) -> tuple[str, ...]:
        """Groups known to be lost with a server that was restarted; told once.

        They are those that waited in its queue when it last answered, and those that it has taken
        since. A batch that it had put together and not handed out yet is in no number it tells.
        """
        lost, self._lost = self._lost, ()
        return lost

    async def refresh(self) -> None:
        """Ask how the server stands; register first where that is needed.

        Raises:
            SinkError: the server did not answer, or not as it should; nothing is known now.
        """
        try:
            environment = self.usable
            if environment is None or not await self._ask(environment):
                self.standing = None
                self.doubt()
                if (environment := await self._register()) is None:
                    return
                await self._ask(environment)
            await self._leave(self._leaving)
        except SinkError:
            self.standing = None
            raise

    async def leave(self) -> None:
        """Disconnect whatever is surely ours.

        Raises:
            SinkError: the server did not answer, or not as it should.
        """
        if self.environment is None:
            return
        await self.refresh()
        if environment := self.usable:
            await self._leave({*self._leaving, environment.env_id})

    async def _ask(self, environment: Environment) -> bool:
        """Whether the server still knows the environment; `standing` is its answer then."""
        try:
            standing = await self._standing(environment.env_id)
        except AnswerError as error:
            logger.info("Atropos may not know environment %d: %s", environment.env_id, error)
            return False
        if self.step is not None and standing.current_step < self.step:
            return False
        known = len(self._waiting)
        earlier = {each: (await self._standing(each)).self_queue_size for each in self._earlier}
        if environment.connection != self._client.connections:
            return False
        self._earlier = {each for each, waiting in earlier.items() if waiting}
        queued = standing.self_queue_size + sum(earlier.values())
        since = self._waiting[known:]
        self._waiting = self._waiting[max(0, known - queued) : known] + since
        self.step, self.standing, self.sent = standing.current_step, standing, len(since)
        return True

    async def _standing(self, env_id: int) -> Standing:
        path = "/status-env"
        return read(Standing, path, await self._client.ask("GET", path, {"env_id": env_id}))

    async def _register(self) -> Environment | None:
        """None while there is no trainer, or it has not started."""
        info = read(Info, "/info", await self._client.ask("GET", "/info"))
        self.info = info if info.known else None
        if self.info is None or self.misfit is not None:
            return None
        path, settings = "/register-env", self._settings
        body = {
            "max_token_length": settings.max_token_length,
            "desired_name": self._name,
            "weight": settings.weight,
            "group_size": settings.group_size,
            "min_batch_allocation": settings.min_batch_allocation,
        }
        answer = await self._client.ask("POST", path, body)
        if "env_id" not in answer:  # "wait for trainer to start"
            return None
        new = Environment(read(Registered, path, answer), self._client.connections)
        self._adopt(new)
        return new

    @property
    def misfit(self) -> str | None:
        """Why groups of this size would never be handed to the trainer, if so."""
        size = self._settings.group_size
        if self.info is None or self.info.batch_size % size == 0:
            return None
        return (
            f"the trainer's batch size {self.info.batch_size} is no multiple of group_size {size}, "
            "so Atropos would never hand such groups out: change one of the two"
        )

    def _adopt(self, new: Environment) -> None:
        """Take a registration over, with what it tells of the one before."""
        last, answer = self.environment, new.answer
        if last is not None and not self._same_server(last, answer):
            logger.warning("Atropos was restarted: %d groups were lost with it", len(self._waiting))
            self._lost += tuple(self._waiting)
            self._waiting, self.sent, self.step = [], 0, None
            self._earlier, self._leaving = set(), set()
            last = None
        if last is not None:
            self._earlier.add(last.env_id)
            self._leaving.add(last.env_id)
        self._leave_unanswered(last, answer)
        self.environment, self._doubted = new, False
        logger.info("registered with Atropos as environment %d", answer.env_id)

    def _same_server(self, last: Environment, answer: Registered) -> bool:
        return (
            answer.number > last.answer.number
            and answer.env_id > last.env_id
            and (self.step is None or answer.starting_step >= self.step)
        )

    def _leave_unanswered(self, last: Environment | None, answer: Registered) -> None:
        """Registrations of ours whose answers were lost are environments too."""
        last_number, last_id = (last.answer.number, last.env_id) if last else (-1, -1)
        unanswered = answer.number - last_number - 1
        between = range(last_id + 1, answer.env_id)
        if len(between) == unanswered:
            self._leaving.update(between)
        elif unanswered:
            logger.warning(
                "%d of the environments %s are ours, but Atropos did not tell which%s",
                unanswered,
                list(between),
                "; it may wait for their share of a batch for ever: restart it"
                if self._settings.min_batch_allocation
                else "",
            )

    async def _leave(self, ids: set[int]) -> None:
        """Only on the connection that they were found to be ours on."""
        for env_id in sorted(ids):
            if environment := self.usable:
                connection = environment.connection
                body = {"env_id": env_id}
                await self._client.ask("POST", "/disconnect-env", body, connection=connection)
                self._leaving.discard(env_id)
