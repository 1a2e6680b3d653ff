"""The oracle: runs the task's own solution, so that a task and its verifier can be checked."""

from typing import Any

from episode_operator.agent.journal import Journal, Record
from episode_operator.agent.report import AgentReport, Progress
from episode_operator.api.reasons import AgentEnd
from episode_operator.api.task import Solution
from episode_operator.sandbox.errors import CommandNotStarted
from episode_operator.sandbox.memory import check_memory
from episode_operator.sandbox.session import Session

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
        solution: Solution,
        timeout_seconds: int,
        output_limit_bytes: int,
        journal: Journal,
        opening: list[dict[str, Any]],
    ) -> None:
        self._session = session
        self._solution = solution
        self._timeout = timeout_seconds
        self._output_limit = output_limit_bytes
        self._journal = journal
        self._messages = list(opening)
        self._progress = Progress()

    async def run(self) -> AgentEnd:
        """Run the solution; its exit code does not count, what it leaves behind does.

        Raises:
            OracleError: there is no shell to run it.
            SandboxError: the sandbox failed.
        """
        ran = await self._journal.once("oracle", self._solve)
        self._messages.append({"role": "assistant", "content": ran["output"]})
        self._progress.turns = 1
        self._progress.tools.update(_ORACLE_TOOLS)
        self._progress.tool_seconds += ran["seconds"]
        return AgentEnd.AGENT_TIMEOUT if ran["timedOut"] else AgentEnd.ORACLE_COMPLETED

    def report(self, end: AgentEnd) -> AgentReport:
        """What was done; an oracle has no tokens."""
        return AgentReport(end=end, progress=self._progress, messages=self._messages)

    async def _solve(self) -> Record:
        try:
            result = await self._session.exec(
                self._solution.script,
                timeout_seconds=self._timeout,
                request_id="oracle",
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
