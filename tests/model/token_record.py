"""What must hold of the prompts of a conversation, whoever makes them, and who makes them wrongly.

The judge is the chat template: rendered as text over the whole history with a placeholder for every
sampled answer, it says what stands between the answers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.fakes.jinja import Model

Messages = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A sampled turn: its ids, and whether it ended by itself (then the last id is its end)."""

    ids: tuple[int, ...]
    ended: bool


@dataclass(frozen=True, kw_only=True)
class Talk:
    """A conversation. `following[n]` is said after `answers[n]`; nothing follows the last."""

    model: Model
    tools: list[dict[str, Any]]
    opening: Messages
    answers: list[Answer]
    following: list[Messages]

    def render(self, messages: Messages, *, generation_prompt: bool = True) -> str:
        """The template's text."""
        return self.model.render(
            messages, self.tools, generation_prompt, **dict(self.model.arguments)
        )

    def messages(self, turn: int, answer: Callable[[int], dict[str, Any]]) -> Messages:
        """All messages that the prompt of a turn is made of."""
        said = list(self.opening)
        for number in range(turn):
            said += [answer(number), *self.following[number]]
        return said


def check(talk: Talk, prompts: Sequence[Sequence[int]]) -> None:
    """Prompts only extend, by what was sampled and by what the template writes; see `inserted`."""
    tokenizer = talk.model.tokenizer
    assert len(prompts) == len(talk.answers)
    before: list[int] = []
    for turn, prompt in enumerate(prompts):
        assert list(prompt[: len(before)]) == before, f"prompt {turn} does not extend the last"
        new = list(prompt[len(before) :])
        expected = inserted(talk, turn)
        assert tokenizer.decode(new) == expected
        harmless = inserted(_without_special_text(talk), turn)
        assert _specials(talk.model, new) == _specials(talk.model, tokenizer.encode(harmless))
        if expected == harmless:
            assert new == tokenizer.encode(expected)
        before = [*prompt, *talk.answers[turn].ids]


def inserted(talk: Talk, turn: int) -> str:
    """What the template writes between the answer before and the opening of this one."""
    if turn == 0:
        return talk.render(talk.opening)
    placeholder = f"Answer{turn - 1}here"
    results = sum(one["role"] == "tool" for one in talk.following[turn - 1])

    def answer(number: int) -> dict[str, Any]:
        text = f"Answer{number}here"
        if number < turn - 1 or results != 1:
            return {"role": "assistant", "content": text}
        function = {"name": "terminal", "arguments": f'{{"command": "{text}"}}'}
        call = {"id": "call_0", "type": "function", "function": function}
        return {"role": "assistant", "content": text, "tool_calls": [call]}

    text = talk.render(talk.messages(turn, answer))
    rest = text[text.rindex(placeholder) :]
    start = rest.index(talk.model.end)
    ended = talk.answers[turn - 1].ended
    return rest[start + len(talk.model.end) if ended else start :]


def _without_special_text(talk: Talk) -> Talk:
    def harmless(messages: Messages) -> Messages:
        return [dict(one, content=_broken(talk.model, one["content"])) for one in messages]

    return Talk(
        model=talk.model,
        tools=talk.tools,
        opening=harmless(talk.opening),
        answers=talk.answers,
        following=[harmless(messages) for messages in talk.following],
    )


def _broken(model: Model, text: str) -> str:
    for special in model.specials:
        text = text.replace(special, f"{special[0]} {special[1:]}")
    return text


def _specials(model: Model, ids: Sequence[int]) -> list[int]:
    return [one for one in ids if model.tokenizer.is_special(one)]


def _as_said(talk: Talk) -> Callable[[int], dict[str, Any]]:
    def answer(number: int) -> dict[str, Any]:
        said = talk.answers[number]
        text = talk.model.tokenizer.decode(said.ids[:-1] if said.ended else said.ids)
        return {"role": "assistant", "content": text}

    return answer


def render_again(talk: Talk) -> list[list[int]]:
    """Wrong: every prompt is the history as text, rendered and tokenized again."""
    return [
        talk.model.tokenizer.encode(talk.render(talk.messages(turn, _as_said(talk))))
        for turn in range(len(talk.answers))
    ]


def _appended(talk: Talk, new: Callable[[int], list[int]]) -> list[list[int]]:
    prompts: list[list[int]] = []
    for turn in range(len(talk.answers)):
        before = [*prompts[-1], *talk.answers[turn - 1].ids] if turn else []
        prompts.append([*before, *new(turn)])
    return prompts


def prefix_difference(talk: Talk) -> list[list[int]]:
    """Wrong: what the rendering with the new messages has more ids than that of the history."""

    def new(turn: int) -> list[int]:
        messages = talk.messages(turn, _as_said(talk))
        known = len(messages) - len(talk.following[turn - 1]) if turn else 0
        history = talk.render(messages[:known], generation_prompt=False) if known else ""
        encode = talk.model.tokenizer.encode
        return encode(talk.render(messages))[len(encode(history)) :]

    return _appended(talk, new)


def new_messages_alone(talk: Talk) -> list[list[int]]:
    """Wrong: the new messages rendered as a conversation of their own."""
    return _appended(
        talk,
        lambda turn: talk.model.tokenizer.encode(
            talk.render(talk.following[turn - 1] if turn else talk.opening)
        ),
    )


def special_text_becomes_special(talk: Talk) -> list[list[int]]:
    """Wrong: right as text, but a special token that a tool printed is one."""
    return _appended(talk, lambda turn: talk.model.tokenizer.encode(inserted(talk, turn)))


def end_token_twice(talk: Talk) -> list[list[int]]:
    """Wrong: the template's end token also behind a turn that sampled its end."""
    cut_off = Talk(
        model=talk.model,
        tools=talk.tools,
        opening=talk.opening,
        answers=[Answer(ids=one.ids, ended=False) for one in talk.answers],
        following=talk.following,
    )
    return special_text_becomes_special(cut_off)


def end_token_never(talk: Talk) -> list[list[int]]:
    """Wrong: no end token behind a turn that was cut off."""
    ended = Talk(
        model=talk.model,
        tools=talk.tools,
        opening=talk.opening,
        answers=[Answer(ids=one.ids, ended=True) for one in talk.answers],
        following=talk.following,
    )
    return special_text_becomes_special(ended)
