"""Chat templates that models are published with, rendered as transformers and vLLM render them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tests.fakes.bpe import Tokenizer
from tests.fakes.chat import TemplateError

TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True, kw_only=True)
class Model:
    """A published chat template with the special tokens of its model's tokenizer.

    `end` is what the template writes behind an answer; `other_ends` end a turn as well; `family`
    names the special tokens, `arguments` go to the template.
    """

    name: str
    template: str
    specials: tuple[str, ...]
    end: str
    other_ends: tuple[str, ...] = ()
    bos: str = ""
    takes_tools: bool = True
    arguments: tuple[tuple[str, Any], ...] = ()

    @property
    def source(self) -> str:
        """The template's text."""
        return (TEMPLATES / f"{self.template}.jinja").read_text()

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        generation_prompt: bool,
        **arguments: Any,
    ) -> str:
        """The prompt as text; raises TemplateError where the template refuses."""
        try:
            text: str = _compiled(self.template).render(
                messages=[_as_vllm_hands_it_over(message) for message in messages],
                tools=list(tools) or None,
                add_generation_prompt=generation_prompt,
                bos_token=self.bos,
                **arguments,
            )
        except jinja2.TemplateError as error:
            raise TemplateError(str(error)) from error
        return text

    @property
    def tokenizer(self) -> Tokenizer:
        """A tokenizer with the model's special tokens."""
        return _tokenizer(self.specials)


@cache
def _tokenizer(specials: tuple[str, ...]) -> Tokenizer:
    corpus = "".join(path.read_text() for path in sorted(TEMPLATES.iterdir()))
    return Tokenizer(corpus, specials=specials, merges=300)


@cache
def _compiled(name: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string((TEMPLATES / f"{name}.jinja").read_text())


def _tojson(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _as_vllm_hands_it_over(message: Mapping[str, Any]) -> dict[str, Any]:
    """vLLM gives templates the arguments of calls as objects."""
    calls = message.get("tool_calls")
    if calls is None:
        return dict(message)
    read: list[Any] = []
    for call in calls:
        function = dict(call["function"])
        function["arguments"] = json.loads(function["arguments"])
        read.append({**call, "function": function})
    return {**message, "tool_calls": read}


_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_QWEN = (*_CHATML, "<tool_call>", "</tool_call>")
_QWEN3 = (*_QWEN, "<tool_response>", "</tool_response>", "<think>", "</think>")
_LLAMA = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
)
_IM_END, _EOT = "<|im_end|>", "<|eot_id|>"

MODELS = (
    Model(name="Qwen2.5", template="qwen2.5", specials=_QWEN, end=_IM_END),
    Model(
        name="Qwen3",
        template="qwen3",
        specials=_QWEN3,
        end=_IM_END,
        other_ends=("<|endoftext|>",),
    ),
    Model(
        name="Qwen3 without thinking",
        template="qwen3",
        specials=_QWEN3,
        end=_IM_END,
        arguments=(("enable_thinking", False),),
    ),
    Model(name="Qwen3 Thinking", template="qwen3-thinking", specials=_QWEN3, end=_IM_END),
    Model(name="Qwen3 Coder", template="qwen3-coder", specials=_QWEN3, end=_IM_END),
    Model(
        name="Llama 3",
        template="llama3",
        specials=_LLAMA,
        end=_EOT,
        other_ends=("<|eom_id|>",),
        bos="<|begin_of_text|>",
    ),
    Model(
        name="Llama 3 with reasoning",
        template="llama3",
        specials=(*_LLAMA, "<think>", "</think>"),
        end=_EOT,
        bos="<|begin_of_text|>",
    ),
    Model(
        name="Llama 3 pythonic",
        template="llama3-pythonic",
        specials=_LLAMA,
        end=_EOT,
        other_ends=("<|eom_id|>",),
        bos="<|begin_of_text|>",
    ),
    Model(name="ChatML", template="chatml", specials=_CHATML, end=_IM_END),
    Model(
        name="Gemma 3",
        template="gemma3",
        specials=("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
        end="<end_of_turn>",
        other_ends=("<eos>",),
        bos="<bos>",
        takes_tools=False,
    ),
)
