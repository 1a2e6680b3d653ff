"""Verifies one step of an attempt, and puts the verdict into the journal."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict

from episode_operator.agent.journal import Record
from episode_operator.agent.report import Progress
from episode_operator.api.episode import Episode
from episode_operator.api.reasons import NoVerdictReason, Verdict
from episode_operator.controller import inputs
from episode_operator.controller.sessions import Sessions
from episode_operator.controller.traces import verdict_attributes
from episode_operator.kube.client import KubernetesClient
from episode_operator.lifecycle.outcome import Failure, Scored
from episode_operator.tracing import Attribute
from episode_operator.verifier.base import Context, Tests
from episode_operator.verifier.composite import AgentUse
from episode_operator.verifier.verify import verify


class StepVerification:
    """The verification of one step; `turns` are those that the agent took in it."""

    def __init__(
        self,
        client: KubernetesClient,
        sessions: Sessions,
        episode: Episode,
        index: int,
        *,
        pod_files: Mapping[str, bytes],
        progress: Progress,
        turns: int,
    ) -> None:
        self._client = client
        self._sessions = sessions
        self._episode = episode
        self._index = index
        self._pod_files = pod_files
        self._verifier = episode.spec.plan[index].verifier
        self._use = AgentUse(
            turns=turns, max_turns=episode.spec.agent.max_turns, tools=frozenset(progress.tools)
        )

    async def record(self) -> Record:
        """Run the tests; the verdict as a journal's record.

        Raises:
            InvalidInputError: a reference leads nowhere.
            SandboxError: the sandbox failed.
        """
        verifier, agent = self._verifier, await self._sessions.agent()
        tests = await self._tests()
        info = await agent.info()
        context = Context(
            session=await self._sessions.verifier(self._index) if verifier.separate else agent,
            contract=verifier.contract,
            workdir=self._episode.spec.task.workdir or info.working_dir,
            timeout_seconds=verifier.timeout_seconds,
            env={variable.name: variable.value for variable in verifier.env},
            user=verifier.user,
            use=self._use,
            secret=self._secret(),
            name=f"verifier-{self._index}",
            pod_files=self._pod_files if verifier.separate else {},
        )
        verification = await verify(context, verifier, tests, agent=agent)
        end = verification.end
        kind = "scored" if isinstance(end, Scored) else "failure"
        return {"kind": kind, "end": asdict(end), "output": verification.output}

    def replay(self, value: Record) -> Scored | Failure:
        """The verdict of a record."""
        fields = value["end"]
        if value["kind"] == "scored":
            return Scored(**{**fields, "verdict": Verdict(fields["verdict"])})
        return Failure(NoVerdictReason(fields["reason"]), fields["message"])

    def told(self, value: Record) -> dict[str, Attribute]:
        """What a trace tells of a record."""
        return verdict_attributes(self.replay(value))

    async def _tests(self) -> Tests:
        contract = self._verifier.pytest or self._verifier.test_script
        if contract is None:
            return Tests()
        namespace = self._episode.namespace
        return Tests(
            files=await inputs.files(self._client, namespace, contract.files),
            archives=await inputs.archives(self._client, namespace, contract.archives),
        )

    def _secret(self) -> str:
        """The same after a restart, and unknown to the agent: it knows no uid and no test code."""
        code = self._verifier.model_dump_json()
        return hashlib.sha256(f"{self._episode.uid} {code}".encode()).hexdigest()
