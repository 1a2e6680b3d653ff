"""The real model server of the tests, and a client that watches and can force what is sampled."""

import json
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from episode_operator.agent.prompts import opening
from episode_operator.agent.tools import toolbox
from episode_operator.model import VllmClient
from episode_operator.model.wire import Generated

POLICY = Path(__file__).parents[2] / "examples" / "policy"
TOOLS = [one.schema() for one in toolbox(["terminal"]).values()]
NO_OUTPUT = "[no output, exit code 0]"
TOLERANCE = {"float32": 1e-4, "bfloat16": 0.25}
"""Largest difference between a sampling logprob and its re-score; measured: 2e-5 and 0.13."""


def url() -> str:
    """Base URL of the server; without one these tests fail."""
    found = os.environ.get("EPISODE_VLLM_URL")
    assert found, "EPISODE_VLLM_URL is not set: run `make test`, which brings up vLLM"
    return found


def model() -> str:
    """Name of the policy on the server."""
    return os.environ.get("MODEL_NAME", "policy")


def tolerance() -> float:
    """See TOLERANCE; the testbed's server computes in float32."""
    return TOLERANCE[os.environ.get("EPISODE_VLLM_DTYPE", "float32")]


def held_out_tasks(count: int, *, paraphrase: bool = False) -> list[dict[str, str]]:
    """Tasks that the policy has never seen, as examples/policy/tasks.py prints them."""
    command = [sys.executable, str(POLICY / "tasks.py"), "--count", str(count)]
    if paraphrase:
        command.append("--paraphrase")
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in printed.splitlines()]


def messages_of(task: Mapping[str, str]) -> list[dict[str, Any]]:
    """The first messages of an episode on the task, as the operator writes them."""
    return opening(None, task["instruction"])


class WatchedClient(VllmClient):
    """Keeps every sample with its prompt. A text in `forced` is what the next sample says.

    Forcing leaves the choice of tokens to the model, so the ids are often not those that the
    tokenizer would make of the text.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.samples: list[tuple[list[int], Generated]] = []
        self.forced: deque[str] = deque()
        self.next_request_id: str | None = None

    async def generate(
        self,
        token_ids: Sequence[int],
        *,
        sampling_params: Mapping[str, Any],
        cache_salt: str | None = None,
        priority: int = 0,
        request_id: str | None = None,
    ) -> Generated:
        """As VllmClient's; watched, and forced when a text is waiting."""
        params = dict(sampling_params)
        if self.forced:
            # A line break as such would end the pattern.
            pattern = re.escape(self.forced.popleft()).replace("\\\n", r"\n")
            params["structured_outputs"] = {"regex": pattern}
        request_id, self.next_request_id = self.next_request_id or request_id, None
        sampled = await super().generate(
            token_ids,
            sampling_params=params,
            cache_salt=cache_salt,
            priority=priority,
            request_id=request_id,
        )
        self.samples.append((list(token_ids), sampled))
        return sampled
