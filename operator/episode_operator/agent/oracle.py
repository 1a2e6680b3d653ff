"""The oracle: runs the task's own solution, so that a task and its verifier can be checked."""

from collections.abc import Callable
from functools import partial
from typing import Any

from episode_operator.agent import metrics, prompts
from episode_operator.agent.journal import Journal, Record
from episode_operator.agent.report import AgentReport, Progress
from episode_operator.api.agent import AgentKind
from episode_operator.api.reasons import AgentEnd
from episode_operator.api.step import Step
from episode_operator.api.task import Solution
from episode_operator.sandbox.errors import CommandNotStarted
from episode_operator.sandbox.memory import check_memory
from episode_operator.sandbox.session import Session
from episode_operator.tracing import Trace

_ORACLE_TOOLS = frozenset({"terminal", "write_file"})
"""What a right solution uses, so that contracts that score tool use give it full marks."""


class OracleError(Exception):
    """The solution could not even be started: the task does not fit its image."""


class OracleAgent:
    """One episode's oracle."""

    def __init__(
        self,
        *,
        session: Session,
        user: str | None,
        timeouts: Callable[[Step], int],
        output_limit_bytes: int,
        journal: Journal,
        system_prompt: str | None,
        trace: Trace,
    ) -> None:
        self._session = session
        self._user = user
        self._timeouts = timeouts
        self._output_limit = output_limit_bytes
        self._journal = journal
        self._system_prompt = system_prompt
        self._trace = trace
        self.messages: list[dict[str, Any]] = []
        self.progress = Progress()

    async def run(self, step: Step, instruction: str) -> AgentEnd:
        """Run the step's solution; its exit code does not count, what it leaves behind does.

        Raises:
            OracleError: there is no shell to run it.
            SandboxError: the sandbox failed.
        """
        assert step.solution is not None  # CEL admits no oracle without
        key = f"oracle-{self.progress.turns}"
        self.messages += prompts.opening(self._system_prompt, instruction, first=not self.messages)
        solve = partial(self._solve, key, step.solution, self._timeouts(step))
        with self._trace.span("turn", self.progress.turns) as span:
            ran = await self._journal.once(key, solve)
            if self._journal.live:
                metrics.TURNS.labels(AgentKind.ORACLE).inc()
                span.tell({"episode.turn": self.progress.turns})
        self.messages.append({"role": "assistant", "content": ran["output"]})
        self.progress.turns += 1
        self.progress.tools = set(_ORACLE_TOOLS)
        self.progress.tool_seconds += ran["seconds"]
        return AgentEnd.AGENT_TIMEOUT if ran["timedOut"] else AgentEnd.ORACLE_COMPLETED

    def report(self, end: AgentEnd | None) -> AgentReport:
        """What was done; an oracle has no tokens."""
        return AgentReport(end=end, progress=self.progress, messages=self.messages)

    async def _solve(self, key: str, solution: Solution, timeout_seconds: int) -> Record:
        try:
            result = await self._session.exec(
                solution.script,
                timeout_seconds=timeout_seconds,
                request_id=key,
                env={variable.name: variable.value for variable in solution.env},
                user=self._user,
                shell="auto",
                merge_output=True,
                output_limit_bytes=self._output_limit,
            )
        except CommandNotStarted as error:
            raise OracleError(f"the solution cannot be started: {error}") from error
        check_memory(result, pod_uid=self._session.pod_uid)
        output = result.stdout.text()
        return {
            "output": f"{output}\n[exit code {result.exit_code}]",
            "timedOut": result.timed_out,
            "seconds": round(result.duration_seconds, 3),
        }
