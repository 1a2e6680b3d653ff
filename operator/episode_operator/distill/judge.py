"""The judge: any server with the OpenAI chat protocol, asked for several votes at once."""

import asyncio

import aiohttp

from episode_operator.distill.votes import Decision, Vote, judge_messages, read_vote
from episode_operator.model.errors import (
    ContextLengthExceeded,
    ModelBadResponse,
    ModelError,
    ModelNotFound,
    ModelTimeout,
    ModelUnauthorized,
    ScaleOutDisabled,
)
from episode_operator.model.metrics import Operation
from episode_operator.model.transport import Transport

_PATH = "/v1/chat/completions"
_CONCURRENT_REQUESTS = 16


class Judge:
    """One judge. Safe for concurrent use; share one to bound its requests.

    `endpoint` is a base URL without /v1; `retry_budget` the seconds in which a vote that failed for
    a passing cause (no connection, 5xx, 429) is asked again.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: str,
        model: str,
        *,
        api_key: str | None = None,
        votes: int = 3,
        temperature: float = 0.7,
        max_tokens: int = 500,
        request_timeout: float = 120.0,
        retry_budget: float = 60.0,
    ) -> None:
        self._endpoint = endpoint
        self._http = Transport(
            session,
            endpoint,
            request_timeout=request_timeout,
            retry_budget=retry_budget,
            api_key=api_key,
        )
        self._model = model
        self._votes = votes
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._request_timeout = request_timeout
        self._gate = asyncio.Semaphore(_CONCURRENT_REQUESTS)

    async def votes(self, response: str, next_state: str, role: str) -> list[Vote]:
        """All votes on one turn. What goes wrong with one is that vote's error; nothing is raised.

        `response` is the turn's text, `next_state` what followed it and `role` whose it is.
        """
        messages = judge_messages(response, next_state, role)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._vote(messages)) for _ in range(self._votes)]
        return [task.result() for task in tasks]

    async def _vote(self, messages: list[dict[str, str]]) -> Vote:
        body = {
            "model": self._model,
            "messages": messages,
            "temperature": self._temperature,
            "max_tokens": self._max_tokens,
        }
        try:
            async with self._gate:
                answer = await self._http.call("POST", _PATH, body, operation=Operation.JUDGE)
            text, cut = _text(answer)
        except ModelError as error:
            return Vote(decision=Decision.FAILED, error=self._wording(error))
        vote = read_vote(text)
        if vote.decision is Decision.FAILED and cut:
            message = f"{vote.error}; it was cut off: raise distillation.judge.maxTokens"
            return Vote(decision=Decision.FAILED, error=message)
        return vote

    def _wording(self, error: ModelError) -> str:
        """What is wrong in terms of a judge: the transport's own words are about a vLLM server."""
        fields = "check distillation.judge.endpoint, name and apiKeyFrom"
        if isinstance(error, ScaleOutDisabled | ModelNotFound):
            return f"{self._endpoint} does not serve {self._model!r} under {_PATH}: {fields}"
        if isinstance(error, ModelUnauthorized):
            return f"{error.reason}: {error}: {fields}"
        if isinstance(error, ModelTimeout):
            cause = f"no answer within {self._request_timeout:.0f} s"
            return f"{cause}: raise distillation.judge.requestTimeoutSeconds, or add servers"
        if isinstance(error, ContextLengthExceeded):
            return f"{error}: lower distillation.judge.nextStateLimit"
        return f"{error.reason}: {error}"


def _text(answer: dict[str, object]) -> tuple[str, bool]:
    """The answer's text, and whether it was cut off at max_tokens."""
    try:
        choice = answer["choices"][0]  # type: ignore[index]
        content, finish = choice["message"]["content"], choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ModelBadResponse(f"{_PATH} answered no message") from error
    if not isinstance(content, str):
        cut = "; it was cut off: raise distillation.judge.maxTokens" if finish == "length" else ""
        raise ModelBadResponse(f"{_PATH} answered a message without text{cut}")
    return content, finish == "length"
