"""A judge that knows the tasks: it finds the one that a turn is about and hints its command.

    python -m examples.learning.judge --port 8100 --seed 1

It is a server of the OpenAI chat protocol, as docs/distillation.md describes a judge. It sees a
turn and what followed it, not the instruction. A turn that already runs the command, that is about
no task of the training set, or about which of them is not clear, gets no hint. So does one about a
held-out task: nothing may be learnt from those. `GET /counts` tells how many got one.
"""

import argparse
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from examples.learning.matching import Tasks, runs
from trainer_bridge.sources.builtin.terminal import (
    DEFAULT_COUNT,
    FAMILIES,
    TerminalTask,
    divided,
)

NO_HINT = "\\boxed{-1}"
_TURN = re.compile(r"## Assistant response \(turn t\)\n(.*?)\n\n## Next state \(turn t\+1\)", re.S)


def hint_text(command: str) -> str:
    """The hint that says which command to run, word for word as the policy is taught to follow."""
    return f"Run this command: {command}"


@dataclass
class TaskJudge:
    """Votes on turns, and counts what it said.

    Attributes:
        another_task: hint the command of another task, as a control: such hints teach nothing.
        counts: turns by what became of them: hinted, right, unclear, held_out.

    Raises:
        ValueError: there is no other task to hint.
    """

    train: list[TerminalTask]
    held_out: list[TerminalTask]
    another_task: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if self.another_task and len(self.train) < 2:
            raise ValueError("hints of another task need two training tasks: raise --limit")
        self._tasks = Tasks([*self.train, *self.held_out])
        self._index = {task.name: index for index, task in enumerate(self.train)}

    def vote(self, question: str) -> str:
        """The answer to a question of the operator.

        Raises:
            ValueError: the question holds no turn.
        """
        found = _TURN.search(question)
        if found is None:
            raise ValueError("the question has no part '## Assistant response (turn t)'")
        outcome, hint = self._judged(found[1])
        self.counts[outcome] += 1
        if hint is None:
            return NO_HINT
        return f"\\boxed{{1}} [HINT_START]{hint}[HINT_END]"

    def _judged(self, turn: str) -> tuple[str, str | None]:
        task = self._tasks.meant(turn)
        if task is None:
            return "unclear", None
        if task.name not in self._index:
            return "held_out", None
        if runs(turn, task.command):
            return "right", None
        if self.another_task:
            task = self.train[(self._index[task.name] + 1) % len(self.train)]
        return "hinted", hint_text(task.command)


def application(judge: TaskJudge) -> web.Application:
    """The judge as a web server's routes."""

    async def vote(request: web.Request) -> web.Response:
        try:
            body: dict[str, Any] = await request.json()
            answer = judge.vote(body["messages"][-1]["content"])
        except (ValueError, LookupError, TypeError) as error:
            raise web.HTTPBadRequest(text=f"not a question to a judge: {error!r}") from error
        message = {"role": "assistant", "content": answer}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({"object": "chat.completion", "choices": [choice]})

    async def counts(_: web.Request) -> web.Response:
        asked, hinted = judge.counts.total(), judge.counts["hinted"]
        whole = {"asked": asked, "hinted": hinted, "declined": asked - hinted}
        reasons = {reason: judge.counts[reason] for reason in ("right", "unclear", "held_out")}
        return web.json_response(whole | reasons)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", vote)
    app.router.add_get("/counts", counts)
    return app


def main() -> None:
    """Serve until a signal."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True, help="tasks.seed of the bridge")
    parser.add_argument("--limit", type=int, default=DEFAULT_COUNT, help="tasks.limit")
    parser.add_argument("--eval-split-ratio", type=float, default=0.1)
    parser.add_argument("--families", nargs="+", default=FAMILIES, help="tasks.families")
    parser.add_argument(
        "--another-task", action="store_true", help="hint commands of other tasks, as a control"
    )
    options = parser.parse_args()
    train, held_out = divided(
        seed=options.seed,
        count=options.limit,
        ratio=options.eval_split_ratio,
        families=options.families,
    )
    judge = TaskJudge(train, held_out, another_task=options.another_task)
    web.run_app(application(judge), host=options.host, port=options.port)


if __name__ == "__main__":
    main()
