"""Drives one pod from running to an outcome: setup, agent, verification.

Each step goes through the journal in the pod, so that another operator goes on where this one
stopped. Every error ends in a Failure with a reason of the closed list, or is the operator's own.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict

import aiohttp

from episode_operator.agent.journal import AGENT_ENDED, AgentEndedError, Journal, Record
from episode_operator.agent.oracle import OracleError
from episode_operator.agent.report import AgentReport
from episode_operator.api.base import File
from episode_operator.api.episode import Episode
from episode_operator.api.reasons import AgentEnd, NoVerdictReason, Verdict
from episode_operator.controller import inputs
from episode_operator.controller.agents import Agent, AgentFactory
from episode_operator.controller.inputs import InvalidInputError
from episode_operator.controller.results import AttemptReport
from episode_operator.kube.client import KubernetesClient
from episode_operator.lifecycle.deadlines import deadlines
from episode_operator.lifecycle.outcome import Failure, Outcome, Scored
from episode_operator.lifecycle.pods import MAIN_CONTAINER, PodView
from episode_operator.model import ModelError
from episode_operator.sandbox.errors import (
    CommandNotStarted,
    FileError,
    SandboxError,
    SessionSuperseded,
)
from episode_operator.sandbox.memory import check_memory
from episode_operator.sandbox.network import probe_address, wait_until_closed
from episode_operator.sandbox.session import Session
from episode_operator.verifier.base import Context, Verification
from episode_operator.verifier.composite import AgentUse
from episode_operator.verifier.verify import verify

_RECONNECT_SECONDS = 180.0
"""An API server that is upgraded is away for minutes, while the pod and its commands go on."""

OnAgentEnd = Callable[[str, int, str], Awaitable[None]]


class SetupError(Exception):
    """The task's setup script failed."""


class Attempt:
    """One attempt of an Episode in one pod."""

    def __init__(
        self,
        client: KubernetesClient,
        http: aiohttp.ClientSession,
        agents: AgentFactory,
        episode: Episode,
        pod: PodView,
        *,
        require_network_policy: bool,
        on_agent_end: OnAgentEnd,
    ) -> None:
        self._client = client
        self._http = http
        self._agents = agents
        self._episode = episode
        self._pod = pod
        self._require_network_policy = require_network_policy
        self._on_agent_end = on_agent_end
        self._report = AttemptReport(
            pod_uid=pod.uid,
            image=pod.image_id or episode.spec.task.image,
            sandbox_start_seconds=max(0.0, (pod.started or pod.created) - pod.created),
        )

    async def run(self) -> Outcome:
        """Drive the pod; the outcome holds what was gathered, also after a failure."""
        try:
            end: Scored | Failure = await self._run()
        except (InvalidInputError, OracleError) as error:
            end = Failure(NoVerdictReason.INVALID_TASK, str(error))
        except SetupError as error:
            end = Failure(NoVerdictReason.SETUP_FAILED, str(error))
        except SessionSuperseded:
            raise
        except ModelError as error:
            end = Failure(_reason(error.reason, NoVerdictReason.MODEL_BAD_RESPONSE), str(error))
        except SandboxError as error:
            end = Failure(_reason(error.reason, NoVerdictReason.SANDBOX_ERROR), str(error))
        return Outcome(end, self._report)

    async def _run(self) -> Scored | Failure:
        async with Session.to_pod(
            self._client.connection,
            self._http,
            namespace=self._episode.namespace,
            pod=self._pod.name,
            container=MAIN_CONTAINER,
            pod_uid=self._pod.uid,
            reconnect_seconds=_RECONNECT_SECONDS,
        ) as session:
            journal = await Journal.load(session)
            await journal.once("network", lambda: self._cut_off(session))
            await self._timed("setup_seconds", "setup", journal, lambda: self._setup(session))
            agent = await self._agents.make(self._episode, session, journal)
            end = await self._act(agent, journal)
            report = self._report.agent = agent.report(end)
            await self._on_agent_end(end, report.progress.turns, _summary(report))
            return await self._verify(session, journal, report)

    async def _cut_off(self, session: Session) -> Record:
        if self._require_network_policy and self._episode.spec.sandbox.network.closed:
            await wait_until_closed(session, probe_address(self._client.connection.base_url))
        return {}

    async def _timed(
        self, field: str, step: str, journal: Journal, live: Callable[[], Awaitable[Record]]
    ) -> Record:
        async def timed() -> Record:
            started = time.monotonic()
            value = await live()
            return {**value, "seconds": round(time.monotonic() - started, 3)}

        value = await journal.once(step, timed)
        setattr(self._report, field, value["seconds"])
        return value

    async def _setup(self, session: Session) -> Record:
        task = self._episode.spec.task
        wanted = [*task.files, *(task.solution.files if task.solution else [])]
        for file in await inputs.files(self._client, self._episode.namespace, wanted):
            try:
                await session.write_file(file.path, file.content, mode=file.mode, parents=True)
            except FileError as error:
                raise SetupError(f"task.files: {error}") from error
        if task.setup is None:
            return {}
        try:
            result = await session.exec(
                task.setup.script,
                timeout_seconds=task.setup.timeout_seconds,
                request_id="setup",
                merge_output=True,
            )
        except CommandNotStarted as error:
            raise SetupError(str(error)) from error
        check_memory(result, pod_uid=self._pod.uid)
        if result.exit_code != 0 or result.timed_out:
            how = "timed out" if result.timed_out else f"ended with exit code {result.exit_code}"
            raise SetupError(f"task.setup {how}: {result.stdout.text()[-1000:]}")
        return {}

    async def _act(self, agent: Agent, journal: Journal) -> AgentEnd:
        """Let the agent act within its time, which goes on running across restarts."""

        async def now() -> Record:
            return {"at": time.time()}

        started = await journal.once("agent-started", now)
        left = started["at"] + deadlines(self._episode.spec).agent - time.time()
        try:
            async with asyncio.timeout(None if journal.agent_ended else max(0.0, left)) as limit:
                end = await agent.run()
        except AgentEndedError:
            end = AgentEnd.AGENT_TIMEOUT
        except TimeoutError:
            if not limit.expired():
                raise
            end = AgentEnd.AGENT_TIMEOUT

        async def ended() -> Record:
            return {"end": end, "seconds": round(time.time() - started["at"], 3)}

        value = await journal.once(AGENT_ENDED, ended)
        self._report.agent_seconds = value["seconds"]
        return AgentEnd(value["end"])

    async def _verify(
        self, session: Session, journal: Journal, report: AgentReport
    ) -> Scored | Failure:
        spec = self._episode.spec
        contract_files = await inputs.files(
            self._client, self._episode.namespace, _contract_files(self._episode)
        )

        async def live() -> Record:
            info = await session.info()
            context = Context(
                session=session,
                workdir=spec.task.workdir or info.working_dir,
                timeout_seconds=deadlines(spec).verifier_command,
                use=AgentUse(
                    turns=report.progress.turns,
                    max_turns=spec.agent.max_turns,
                    tools=frozenset(report.progress.tools),
                ),
                secret=_secret(self._episode),
            )
            return _to_record(await verify(context, spec.verifier, contract_files))

        value = await self._timed("verifier_seconds", "verdict", journal, live)
        self._report.verifier_output = value["output"]
        return _from_record(value)


def _contract_files(episode: Episode) -> Sequence[File]:
    verifier = episode.spec.verifier
    contract = verifier.pytest or verifier.test_script
    return contract.files if contract else []


def _reason(name: str, otherwise: NoVerdictReason) -> NoVerdictReason:
    try:
        return NoVerdictReason(name)
    except ValueError:
        return otherwise


def _secret(episode: Episode) -> str:
    """The same after a restart, and unknown to the agent: it knows neither uid nor test code."""
    code = episode.spec.verifier.model_dump_json()
    return hashlib.sha256(f"{episode.uid} {code}".encode()).hexdigest()


def _summary(report: AgentReport) -> str:
    progress = report.progress
    return f"{progress.turns} turns, {progress.tool_calls} tool calls"


def _to_record(verification: Verification) -> Record:
    end = verification.end
    kind = "scored" if isinstance(end, Scored) else "failure"
    return {"kind": kind, "end": asdict(end), "output": verification.output}


def _from_record(value: Record) -> Scored | Failure:
    fields = value["end"]
    if value["kind"] == "scored":
        return Scored(**{**fields, "verdict": Verdict(fields["verdict"])})
    return Failure(NoVerdictReason(fields["reason"]), fields["message"])
