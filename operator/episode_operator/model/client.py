"""The vLLM client: text to ids, ids to ids, ids to text. No tokenizer, no state of an episode."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import numpy as np
from numpy.typing import NDArray

from episode_operator.model.errors import ModelBadResponse, ModelNotFound
from episode_operator.model.metrics import Operation
from episode_operator.model.transport import Transport
from episode_operator.model.versions import WeightVersions
from episode_operator.model.wire import Generated, finite_logprob, parse_generated, token_ids_of

Message = Mapping[str, Any]
"""A chat message: role and content, tool_calls or tool_call_id where the role has them."""


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """A model the server lists; prompt and answer together have at most `max_model_len` tokens.

    `root` is where its weights were loaded from; None for an adapter, which may be loaded anew.
    """

    name: str
    max_model_len: int
    root: str | None


class VllmClient:
    """One model on one vLLM server (>= 0.32, --enable-scale-out). Safe for concurrent use.

    Every method raises a ModelError and repeats what may be repeated within `retry_budget` seconds.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: str,
        model: str,
        *,
        request_timeout: float = 600.0,
        retry_budget: float = 300.0,
        api_key: str | None = None,
        versions: WeightVersions | None = None,
    ) -> None:
        self.model = model
        self.versions = versions or WeightVersions()
        """The labels that the server's weights had so far; may be shared by its clients."""
        self.seen_weights: str | None = None
        """Label of the weights that the newest sample came from; None where there is no label."""
        self._http = Transport(
            session,
            endpoint,
            request_timeout=request_timeout,
            retry_budget=retry_budget,
            api_key=api_key,
        )

    @classmethod
    @asynccontextmanager
    async def open(cls, endpoint: str, model: str, **options: Any) -> AsyncIterator["VllmClient"]:
        """A client with a session of its own, for scripts and tests."""
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield cls(session, endpoint, model, **options)

    @property
    def endpoint(self) -> str:
        """Base URL of the server."""
        return self._http.endpoint

    async def health(self) -> None:
        """Return when the server is healthy."""
        await self._http.call_raw("GET", "/health")

    async def version(self) -> str:
        """The server's version, such as "0.32.0"."""
        return _text(await self._http.call("GET", "/version"), "version")

    async def served_model(self) -> ServedModel:
        """The model this client is for; ModelNotFound names those there are."""
        data = (await self._http.call("GET", "/v1/models")).get("data")
        if not isinstance(data, list):
            raise ModelBadResponse("/v1/models lists no models")
        models = {one.get("id"): one for one in data if isinstance(one, dict)}
        if self.model not in models:
            names = ", ".join(sorted(str(name) for name in models)) or "none"
            raise ModelNotFound(f"no model {self.model!r} on {self.endpoint}; there are: {names}")
        card = models[self.model]
        length = card.get("max_model_len")
        if type(length) is not int or length < 2:
            raise ModelBadResponse(f"max_model_len of {self.model!r} is {length!r}")
        root = None if card.get("parent") else card.get("root")
        return ServedModel(name=self.model, max_model_len=length, root=root)

    async def weight_version(self) -> str | None:
        """The label of the weights in use; None where the server does not tell.

        Only a server in development mode (VLLM_SERVER_DEV_MODE=1) has this endpoint; others tell
        the version with each sample.
        """
        answer = await self._http.optional("GET", "/weight_info")
        if answer is None:
            return None
        label = _text(answer, "weight_version")
        self.versions.see(label)
        return label

    async def paused(self) -> bool:
        """Whether the server puts off all requests; False where it does not tell."""
        return await self._http.paused()

    async def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        template_arguments: Mapping[str, Any] | None = None,
        generation_prompt: bool = True,
    ) -> list[int]:
        """Ids of the chat template over `messages`; by default up to where an answer begins."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": list(messages),
            "add_generation_prompt": generation_prompt,
        }
        if tools:
            body["tools"] = list(tools)
        if template_arguments:
            body["chat_template_kwargs"] = dict(template_arguments)
        answer = await self._http.call(
            "POST", "/v1/chat/completions/render", body, operation=Operation.RENDER
        )
        return token_ids_of(answer.get("token_ids"), what="token_ids of the render")

    async def generate(
        self,
        token_ids: Sequence[int],
        *,
        sampling_params: Mapping[str, Any],
        cache_salt: str | None = None,
        priority: int = 0,
        request_id: str | None = None,
    ) -> Generated:
        """Sample after `token_ids`. Logprobs of the sampled ids are always asked for.

        The server knows the request as `generate-tokens-<request_id>`.
        """
        params = {"logprobs": 0, "detokenize": False, **sampling_params}
        body: dict[str, Any] = {
            "model": self.model,
            "token_ids": list(token_ids),
            "sampling_params": params,
        }
        if cache_salt is not None:
            body["cache_salt"] = cache_salt
        if priority:
            body["priority"] = priority
        if request_id is not None:
            body["request_id"] = request_id
        answer = await self._http.call(
            "POST", "/inference/v1/generate", body, operation=Operation.SAMPLE
        )
        sampled = parse_generated(answer, top_count=params["logprobs"])
        for span in sampled.versions:
            self.versions.see(span.version)
            self.seen_weights = span.version
        return sampled

    async def score(self, token_ids: Sequence[int]) -> NDArray[np.float32]:
        """Logprob of every id given those before it, float32[n-1], at temperature 1, unfiltered.

        Computed afresh: with values taken from the prefix cache vLLM's V1 engine answers nonsense.
        """
        ids = list(token_ids)
        params = {
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": 0,
            "detokenize": False,
            "skip_reading_prefix_cache": True,
        }
        body = {"model": self.model, "token_ids": ids, "sampling_params": params}
        answer = await self._http.call(
            "POST", "/inference/v1/generate", body, operation=Operation.SCORE
        )
        rows = answer.get("prompt_logprobs")
        if not isinstance(rows, list) or len(rows) != len(ids) or rows[0] is not None:
            raise ModelBadResponse(f"prompt_logprobs are not those of {len(ids)} ids")
        values = np.empty(len(ids) - 1, dtype=np.float32)
        for position in range(1, len(ids)):
            entry = rows[position] or {}
            value = (entry.get(str(ids[position])) or {}).get("logprob")
            values[position - 1] = finite_logprob(value, what=f"prompt_logprobs[{position}]")
        return values

    async def score_prompt(
        self,
        token_ids: Sequence[int],
        *,
        params: Mapping[str, Any],
        cache_salt: str | None = None,
    ) -> bytes:
        """The raw answer, large, to a request that tells about its prompt; see `scoring`."""
        sampling = {"max_tokens": 1, "temperature": 0.0, "detokenize": False, **params}
        body: dict[str, Any] = {
            "model": self.model,
            "token_ids": list(token_ids),
            "sampling_params": sampling,
        }
        if cache_salt is not None:
            body["cache_salt"] = cache_salt
        return await self._http.call_raw(
            "POST", "/inference/v1/generate", body, operation=Operation.SCORE
        )

    async def tokenize(self, text: str) -> list[int]:
        """Ids of plain text, with no special token added; text of special tokens becomes these."""
        return (await self.tokenize_pieces(text))[0]

    async def tokenize_pieces(self, text: str) -> tuple[list[int], list[str]]:
        """Ids of plain text and the vocabulary's own string of each."""
        body = {
            "model": self.model,
            "prompt": text,
            "add_special_tokens": False,
            "return_token_strs": True,
        }
        answer = await self._http.call("POST", "/tokenize", body, operation=Operation.TOKENIZE)
        ids = token_ids_of(answer.get("tokens"), what="tokens")
        strings = answer.get("token_strs")
        if not isinstance(strings, list) or len(strings) != len(ids):
            raise ModelBadResponse("/tokenize answered no string for every id")
        return ids, [str(one) for one in strings]

    async def detokenize(self, token_ids: Sequence[int]) -> str:
        """Text of ids, special tokens included. Bytes that are no UTF-8 become U+FFFD."""
        if not token_ids:
            return ""
        body = {"model": self.model, "tokens": list(token_ids)}
        answer = await self._http.call("POST", "/detokenize", body, operation=Operation.DETOKENIZE)
        return _text(answer, "prompt")

    async def derender(
        self,
        *,
        prompt: Sequence[int],
        token_ids: Sequence[int],
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:
        """The chat message that the server's own parsers make of sampled ids.

        Needs a server with --enable-auto-tool-choice and a --tool-call-parser for its model.
        """
        choice = {"index": 0, "finish_reason": "stop", "token_ids": list(token_ids)}
        body = {
            "model": self.model,
            "generate_response": {"request_id": "derender", "choices": [choice]},
            "prompt_token_ids": list(prompt),
            "chat_request": {
                "model": self.model,
                "messages": list(messages),
                "tools": list(tools),
            },
        }
        answer = await self._http.call(
            "POST", "/v1/chat/completions/derender", body, operation=Operation.DERENDER
        )
        try:
            message = answer["choices"][0]["message"]
        except (KeyError, IndexError, TypeError) as error:
            raise ModelBadResponse("derender answered no message") from error
        if not isinstance(message, dict):
            raise ModelBadResponse("derender answered no message")
        return message


def _text(answer: Mapping[str, Any], key: str) -> str:
    value = answer.get(key)
    if not isinstance(value, str):
        raise ModelBadResponse(f"the answer has no {key}")
    return value
