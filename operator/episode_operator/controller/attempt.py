"""Drives one pod from running to an outcome: setup, agent, verification, step by step.

Each step goes through the journal in the pod, so that another operator goes on where this one
stopped. Every error ends in a Failure with a reason of the closed list, or is the operator's own.
"""

import asyncio
import base64
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from episode_operator.agent.journal import AGENT_ENDED, AgentEndedError, Journal, Record
from episode_operator.agent.oracle import OracleError
from episode_operator.api.episode import Episode
from episode_operator.api.reasons import AgentEnd, NoVerdictReason, Verdict
from episode_operator.api.result import StepResult
from episode_operator.api.step import Step
from episode_operator.api.task import Task
from episode_operator.controller import artifacts, inputs, preparation
from episode_operator.controller.agents import Agent
from episode_operator.controller.inputs import InvalidInputError
from episode_operator.controller.preparation import SetupError
from episode_operator.controller.results import AttemptReport
from episode_operator.controller.sessions import Sessions
from episode_operator.controller.shared import Shared
from episode_operator.controller.traces import agent_attributes
from episode_operator.controller.verification import StepVerification
from episode_operator.lifecycle.deadlines import agent_seconds
from episode_operator.lifecycle.outcome import Failure, Outcome, Scored
from episode_operator.lifecycle.pods import PodView
from episode_operator.lifecycle.steps import StepEnd, combine, shortfall
from episode_operator.model import ModelError, Waiting
from episode_operator.sandbox.errors import SandboxError, SessionSuperseded
from episode_operator.tracing import Attribute, Trace

_POD_SPEAKS_SECONDS = 10.0

OnAgentEnd = Callable[[str, int, str], Awaitable[None]]
OnWarning = Callable[[str, str], Awaitable[None]]


class Attempt:
    """One attempt of an Episode in one pod."""

    def __init__(
        self,
        shared: Shared,
        episode: Episode,
        pod: PodView,
        *,
        trace: Trace,
        on_agent_end: OnAgentEnd,
        on_warning: OnWarning,
    ) -> None:
        self._shared = shared
        self._client = shared.client
        self._episode = episode
        self._trace = trace
        self._on_agent_end = on_agent_end
        self._on_warning = on_warning
        self._agent: Agent | None = None
        self._pod_files: dict[str, bytes] = {}
        self._sessions = Sessions(
            shared.client.connection,
            shared.http,
            episode.namespace,
            pod,
            retry_seconds=shared.session_retry_seconds,
        )
        self._described = asyncio.Event()
        self._report = AttemptReport(pod_uid=pod.uid, image=episode.spec.task.image)
        self.pod_seen(pod)

    def pod_seen(self, pod: PodView) -> None:
        """The pod says more of itself once it has been driven for a moment."""
        if pod.started is not None:
            self._report.sandbox_start_seconds = max(0.0, pod.started - pod.created)
        if pod.image_id is not None:
            self._report.image = pod.image_id
            self._described.set()

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
            if error.reason == NoVerdictReason.SESSION_LOST:
                # What the pod says of its end beats this, and may come a little later.
                await asyncio.sleep(_POD_SPEAKS_SECONDS)
            end = Failure(_reason(error.reason, NoVerdictReason.SANDBOX_ERROR), str(error))
        return Outcome(end, self.report())

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What was said so far; empty before the agent acts."""
        return [] if self._agent is None else self._agent.messages

    def report(self) -> AttemptReport:
        """What was gathered so far, also of an agent that has not ended."""
        if self._report.agent is None and self._agent is not None:
            self._report.agent = self._agent.report(None)
        return self._report

    async def _run(self) -> Scored | Failure:
        async with self._sessions:
            session = await self._sessions.agent()
            journal = await Journal.load(session)
            checked = await journal.once("sandbox", self._check_sandbox)
            self._pod_files = {
                path: base64.b64decode(content) for path, content in checked["podFiles"].items()
            }
            await self._timed("setup", "setup", journal, self._set_up)
            if self._episode.spec.distillation is not None:
                await journal.once("teacher", self._check_teacher)
            self._agent = await self._shared.agents.make(
                self._episode, session, journal, self._trace
            )
            end = await self._steps(self._agent, journal)
            wanted = self._episode.spec.artifacts
            if wanted:
                self._report.artifacts = await artifacts.gather(self._sessions, wanted)
            # An Episode of less than a second ends before the pod's status names its image.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._described.wait(), _POD_SPEAKS_SECONDS)
            return end

    async def _steps(self, agent: Agent, journal: Journal) -> Scored | Failure:
        """Walk the plan: in each step the agent acts, then it is verified."""
        plan, ends = self._episode.spec.plan, list[StepEnd]()
        for index, step in enumerate(plan):
            if step.name:
                enter = partial(self._enter, index, step)
                await self._timed("setup", f"setup-{index}", journal, enter, number=index + 1)
            before = agent.progress.turns
            end = await self._act(agent, journal, index, step)
            self._report.agent = agent.report(end)
            if index == len(plan) - 1:
                await self._agent_ended(end, agent)
            verification = StepVerification(
                self._client,
                self._sessions,
                self._episode,
                index,
                pod_files=self._pod_files,
                progress=agent.progress,
                turns=agent.progress.turns - before,
            )
            value = await self._timed(
                "verifier",
                f"verdict-{index}",
                journal,
                verification.record,
                number=index,
                told=verification.told,
            )
            scored = verification.replay(value)
            self._report.verifier_output = value["output"]
            if step.name:
                self._report.steps.append(_step_result(step, scored))
            if isinstance(scored, Failure):
                return scored
            ends.append(StepEnd(step, scored))
            if index < len(plan) - 1 and (why := shortfall(ends[-1])) is not None:
                await self._agent_ended(end, agent, f"; {why}")
                break
        return combine(plan, ends, self._episode.spec.step_reward)

    async def _check_teacher(self) -> Record:
        """Once, so that an agent at work never depends on a server that only its tokens need."""
        await self._shared.distiller.check(self._episode, on_warning=self._on_warning)
        return {}

    async def _check_sandbox(self) -> Record:
        session, network = await self._sessions.agent(), self._episode.spec.sandbox.network
        unchecked = await preparation.cut_off(
            session, network, self._shared.settings, self._shared.cluster
        )
        if unchecked is not None:
            await self._on_warning("NetworkNotChecked", unchecked)
        return {"podFiles": await self._meet_verifiers()}

    async def _meet_verifiers(self) -> dict[str, str]:
        """Reach the separate containers before the agent can get in their way.

        Returns what the kubelet mounts into them, base64, so that the tests do not find there what
        the agent makes of it.
        """
        apart = [i for i, step in enumerate(self._episode.spec.plan) if step.verifier.separate]
        for index in apart:
            await self._sessions.verifier(index)
        if not apart:
            return {}
        files = await preparation.read_pod_files(await self._sessions.verifier(apart[0]))
        return {path: base64.b64encode(content).decode() for path, content in files.items()}

    async def _set_up(self) -> Record:
        session = await self._sessions.agent()
        await preparation.check_access(session, self._episode.spec.agent.user)
        await self._prepare(self._episode.spec.task, "setup")
        return {}

    async def _enter(self, index: int, step: Step) -> Record:
        name = f"setup-{index}"
        if index:
            await preparation.leave_no_tests(await self._sessions.agent(), request_id=name)
        await self._prepare(step, name)
        return {}

    async def _prepare(self, given: Task | Step, name: str) -> None:
        session, solution = await self._sessions.agent(), given.solution
        await preparation.put(
            self._client,
            self._episode.namespace,
            session,
            files=[*given.files, *(solution.files if solution else [])],
            archives=[*given.archives, *(solution.archives if solution else [])],
            request_id=name,
        )
        await preparation.run_setup(session, given.setup, request_id=name)

    async def _agent_ended(self, end: AgentEnd, agent: Agent, why: str = "") -> None:
        progress = agent.progress
        summary = f"{progress.turns} turns, {progress.tool_calls} tool calls{why}"
        await self._on_agent_end(end, progress.turns, summary)

    async def _timed(
        self,
        phase: str,
        step: str,
        journal: Journal,
        live: Callable[[], Awaitable[Record]],
        *,
        number: int = 0,
        told: Callable[[Record], dict[str, Attribute]] = lambda _: {},
    ) -> Record:
        """A step of a phase, counted into its time; its span is the phase's `number`th."""

        async def timed() -> Record:
            started = time.monotonic()
            with self._trace.span(phase, number) as span:
                value = await live()
                span.tell(told(value))
            return {**value, "seconds": round(time.monotonic() - started, 3)}

        value, field = await journal.once(step, timed), f"{phase}_seconds"
        setattr(self._report, field, getattr(self._report, field) + value["seconds"])
        return value

    async def _act(self, agent: Agent, journal: Journal, index: int, step: Step) -> AgentEnd:
        """Let the agent act within its time, which goes on running across restarts.

        Raises:
            ModelError: the model server failed, also just when the time ended.
        """
        instruction = await inputs.text(
            self._client, self._episode.namespace, step.instruction, step.instruction_from
        )

        async def now() -> Record:
            return {"at": time.time()}

        with self._trace.span("agent", index) as span:
            started = await journal.once(f"agent-started-{index}", now)
            span.start = started["at"]
            left = started["at"] + agent_seconds(self._episode.spec, step) - time.time()
            limit = None if journal.end_ahead else max(0.0, left)
            end = await self._run_agent(agent, step, instruction, limit)

            async def ended() -> Record:
                return {"end": end, "seconds": round(time.time() - started["at"], 3)}

            value = await journal.once(AGENT_ENDED, ended)
            if journal.live:
                span.tell(agent_attributes(end, agent.progress))
        self._report.agent_seconds += value["seconds"]
        return AgentEnd(value["end"])

    async def _run_agent(
        self, agent: Agent, step: Step, instruction: str, limit: float | None
    ) -> AgentEnd:
        """Let the agent act for at most `limit` seconds. Raises as `_act` does."""
        try:
            with Waiting() as waiting:
                async with asyncio.timeout(limit) as timeout:
                    return await agent.run(step, instruction)
        except AgentEndedError:
            return AgentEnd.AGENT_TIMEOUT
        except TimeoutError as over:
            if not timeout.expired():
                raise
            trouble = await waiting.trouble()
            if trouble is not None:  # the agent has not ended by itself, and must not be graded
                raise trouble from over
            self._trace.failed(AgentEnd.AGENT_TIMEOUT)
            return AgentEnd.AGENT_TIMEOUT


def _reason(name: str, otherwise: NoVerdictReason) -> NoVerdictReason:
    try:
        return NoVerdictReason(name)
    except ValueError:
        return otherwise


def _step_result(step: Step, end: Scored | Failure) -> StepResult:
    if isinstance(end, Failure):
        return StepResult(name=step.name, verdict=Verdict.NO_VERDICT, reason=end.reason)
    return StepResult(
        name=step.name,
        verdict=end.verdict,
        reason=end.reason,
        reward=end.reward,
        reward_components=end.components,
    )
