"""Terminal tasks in a seeded order, each different from all others of its stream."""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from .shapes import FAMILIES, SHAPES, Family, Lines, Shape, having, joined, word_count
from .words import HELD_OUT_NAMES, HELD_OUT_WORDS, TRAIN_NAMES, TRAIN_WORDS

Split = Literal["train", "held-out"]

MOST_TASKS = 1000
"""Of a stream: it has words and names for so many different ones, of any single family."""
DEFAULT_COUNT = 200

_VOCABULARY = {
    "train": (TRAIN_WORDS, TRAIN_NAMES),
    "held-out": (HELD_OUT_WORDS, HELD_OUT_NAMES),
}


@dataclass(frozen=True, kw_only=True)
class TerminalTask:
    """One task; `command` solves it, and doing nothing does not.

    Attributes:
        name: family, words and names of files; different in all tasks of both splits.
        words: those that instruction and command name, in that order.
        paths: of all files that they name, in that order: `/workspace/NAME.txt`.
        files: content of each file that is there before, by path; it ends with a newline.
        expected: content of each file that is to be made or changed, by path, without the last
            newline. The other files must stay as they are.
    """

    name: str
    family: Family
    instruction: str
    command: str
    words: tuple[str, ...]
    paths: tuple[str, ...]
    files: dict[str, str]
    expected: dict[str, str]


def tasks(
    split: Split, *, seed: int, families: Collection[Family] = FAMILIES
) -> Iterator[TerminalTask]:
    """The tasks of a split, the same for the same seed on every machine; MOST_TASKS of them.

    The families take turns, in each round easy ones first. No two tasks have the same words and
    names of files, and each name is used once before any is used again: in the first 250 training
    tasks of all families, and in the first 60 held-out ones, a name of a file tells which task is
    meant.
    """
    words, names = _VOCABULARY[split]
    chance = random.Random(f"terminal {split} {seed}")
    word_deck, name_deck = _deck(words, chance), _deck(names, chance)
    chosen = [family for family in FAMILIES if family in families]
    used: set[frozenset[str]] = set()
    for number in range(MOST_TASKS):
        family = chosen[number % len(chosen)]
        shapes = [shape for shape in SHAPES if shape.family == family]
        shape = shapes[number // len(chosen) % len(shapes)]
        while True:
            drawn = tuple(islice(word_deck, shape.words))
            stems = tuple(islice(name_deck, shape.inputs + shape.outputs))
            key = frozenset(drawn + stems)
            if len(key) == len(drawn) + len(stems) and key not in used:
                break
        used.add(key)
        yield _task(shape, drawn, stems, _inputs(shape, drawn, words, chance))


def divided(
    *,
    seed: int,
    count: int = DEFAULT_COUNT,
    ratio: float = 0.1,
    families: Collection[Family] = FAMILIES,
) -> tuple[list[TerminalTask], list[TerminalTask]]:
    """The tasks to train on and those held out, `count` in all.

    `ratio`, from 0 to below 1, is the share of those held out. With a ratio above 0 and two tasks
    or more, both sides have at least one.

    Raises:
        ValueError: `count` is more than MOST_TASKS.
    """
    if count > MOST_TASKS:
        raise ValueError(f"there are at most {MOST_TASKS} terminal tasks, not {count}")
    held_out = min(max(round(count * ratio), 1), count - 1) if ratio > 0 else 0
    train = tasks("train", seed=seed, families=families)
    evaluation = tasks("held-out", seed=seed, families=families)
    return list(islice(train, count - held_out)), list(islice(evaluation, held_out))


def _deck(cards: Sequence[str], chance: random.Random) -> Iterator[str]:
    """All cards in a random order, then all in another one, without end."""
    while True:
        yield from chance.sample(cards, len(cards))


def _task(
    shape: Shape, words: tuple[str, ...], stems: tuple[str, ...], inputs: list[Lines]
) -> TerminalTask:
    paths = tuple(f"/workspace/{stem}.txt" for stem in stems)
    changed = paths[shape.inputs :] or paths
    results = shape.result(words, inputs)
    return TerminalTask(
        name="-".join((shape.family, *words, *stems)),
        family=shape.family,
        instruction=shape.instruction.format(w=words, p=paths),
        command=shape.command.format(w=words, p=paths),
        words=words,
        paths=paths,
        files={
            path: "".join(f"{line}\n" for line in lines)
            for path, lines in zip(paths, inputs, strict=False)
        },
        expected={path: "\n".join(lines) for path, lines in zip(changed, results, strict=True)},
    )


def _inputs(
    shape: Shape, words: tuple[str, ...], vocabulary: Sequence[str], chance: random.Random
) -> list[Lines]:
    """Lines of each input, such that mistakes show."""
    others = [word for word in vocabulary if word not in words]
    while True:
        inputs = [_lines(shape, words[:1], others, chance) for _ in range(shape.inputs)]
        if _telling(shape, words, inputs):
            return [[line.upper() for line in lines] for lines in inputs] if shape.upper else inputs


def _lines(
    shape: Shape, searched: tuple[str, ...], others: Sequence[str], chance: random.Random
) -> Lines:
    """Lines of one or two words; some, not all, have the word that is searched."""
    count = chance.choice(shape.lines)
    lines = [chance.sample(others, chance.randint(1, 2)) for _ in range(count)]
    for word in searched:
        for line in chance.sample(lines, chance.randint(1, len(lines) - 1)):
            line[chance.randrange(len(line))] = word
    return [" ".join(line) for line in lines]


def _telling(shape: Shape, words: tuple[str, ...], inputs: list[Lines]) -> bool:
    """Whether what is asked is the only one of the usual things to do that has its result."""
    parts = inputs if len(inputs) < 2 else [*inputs, joined(inputs)]
    usual: list[Lines] = []
    for lines in parts:
        usual += [lines, lines[::-1], sorted(lines), sorted(lines)[::-1]]
        usual += [[str(len(lines))], [str(word_count(lines))]]
        usual += [[str(len(having(word, lines)))] for word in words[:1]]
    results = [[line.lower() for line in lines] for lines in shape.result(words, inputs)]
    in_order = any(lines == sorted(lines) for lines in inputs)
    return not in_order and all(usual.count(lines) <= 1 for lines in results)
