"""The shapes of terminal tasks: how each is asked, the one command that solves it, the result.

A family is a kind of task and its grade, from 1 (one short command) to 3 (two inputs, or longer).
In the texts `w` are the task's words and `p` its paths, first the inputs and then the outputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Family = Literal[
    "write-1",
    "transform-1",
    "count-1",
    "fix-1",
    "write-2",
    "transform-2",
    "count-2",
    "fix-2",
    "write-3",
    "transform-3",
    "count-3",
    "fix-3",
]
FAMILIES: tuple[Family, ...] = get_args(Family)

Words = Sequence[str]
Lines = list[str]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One shape.

    Attributes:
        result: from the words and the inputs' lines to the lines of every output in order; of every
            input in order where there are no outputs, since then they are changed in place.
        words: number of words that instruction and command name.
        upper: whether the inputs are in upper case.
        lines: how many an input may have; more where a number is asked, which could be guessed.
    """

    family: Family
    instruction: str
    command: str
    result: Callable[[Words, list[Lines]], list[Lines]]
    words: int = 0
    inputs: int = 0
    outputs: int = 0
    upper: bool = False
    lines: range = range(3, 6)


def joined(inputs: list[Lines]) -> Lines:
    """The lines of all inputs, one after the other."""
    return [line for lines in inputs for line in lines]


def word_count(lines: Lines) -> int:
    """Number of words in the lines."""
    return sum(len(line.split()) for line in lines)


def having(word: str, lines: Lines) -> Lines:
    """The lines that have the word."""
    return [line for line in lines if word in line.split()]


def _upper(lines: Lines) -> Lines:
    return [line.upper() for line in lines]


def _without(word: str, inputs: list[Lines]) -> list[Lines]:
    return [[line for line in lines if word not in line.split()] for lines in inputs]


def _replaced(words: Words, inputs: list[Lines]) -> list[Lines]:
    return [[line.replace(words[0], words[1]) for line in lines] for lines in inputs]


SHAPES = (
    Shape(
        family="write-1",
        instruction="Write the word {w[0]} to the file {p[0]}.",
        command="echo {w[0]} > {p[0]}",
        words=1,
        outputs=1,
        result=lambda words, _: [[words[0]]],
    ),
    Shape(
        family="write-2",
        instruction="Write the line {w[0]} {w[1]} {w[2]} to the file {p[0]}.",
        command="echo {w[0]} {w[1]} {w[2]} > {p[0]}",
        words=3,
        outputs=1,
        result=lambda words, _: [[" ".join(words)]],
    ),
    Shape(
        family="write-3",
        instruction="Write the word {w[0]} to the file {p[0]} and the word {w[1]} to the file "
        "{p[1]}.",
        command="echo {w[0]} > {p[0]} && echo {w[1]} > {p[1]}",
        words=2,
        outputs=2,
        result=lambda words, _: [[word] for word in words],
    ),
    Shape(
        family="transform-1",
        instruction="Write the lines of the file {p[0]} in sorted order to the file {p[1]}.",
        command="sort {p[0]} > {p[1]}",
        inputs=1,
        outputs=1,
        result=lambda _, inputs: [sorted(inputs[0])],
    ),
    Shape(
        family="transform-1",
        instruction="Write the lines of the file {p[0]} in reverse order to the file {p[1]}.",
        command="tac {p[0]} > {p[1]}",
        inputs=1,
        outputs=1,
        result=lambda _, inputs: [inputs[0][::-1]],
    ),
    Shape(
        family="transform-2",
        instruction="Write the text of the file {p[0]} in upper case to the file {p[1]}.",
        command="tr a-z A-Z < {p[0]} > {p[1]}",
        inputs=1,
        outputs=1,
        result=lambda _, inputs: [_upper(inputs[0])],
    ),
    Shape(
        family="transform-2",
        instruction="Write the text of the file {p[0]} in lower case to the file {p[1]}.",
        command="tr A-Z a-z < {p[0]} > {p[1]}",
        inputs=1,
        outputs=1,
        upper=True,
        result=lambda _, inputs: [[line.lower() for line in inputs[0]]],
    ),
    Shape(
        family="transform-3",
        instruction="Write the lines of the files {p[0]} and {p[1]} together in sorted order to "
        "the file {p[2]}.",
        command="sort {p[0]} {p[1]} > {p[2]}",
        inputs=2,
        outputs=1,
        result=lambda _, inputs: [sorted(joined(inputs))],
    ),
    Shape(
        family="transform-3",
        instruction="Write the lines of the file {p[0]} in sorted order and in upper case to the "
        "file {p[1]}.",
        command="sort {p[0]} | tr a-z A-Z > {p[1]}",
        inputs=1,
        outputs=1,
        result=lambda _, inputs: [_upper(sorted(inputs[0]))],
    ),
    Shape(
        family="count-1",
        instruction="Count the lines of the file {p[0]} and write the number to the file {p[1]}.",
        command="wc -l < {p[0]} > {p[1]}",
        inputs=1,
        outputs=1,
        lines=range(5, 13),
        result=lambda _, inputs: [[str(len(inputs[0]))]],
    ),
    Shape(
        family="count-1",
        instruction="Count the words of the file {p[0]} and write the number to the file {p[1]}.",
        command="wc -w < {p[0]} > {p[1]}",
        inputs=1,
        outputs=1,
        lines=range(5, 13),
        result=lambda _, inputs: [[str(word_count(inputs[0]))]],
    ),
    Shape(
        family="count-2",
        instruction="Count the lines with the word {w[0]} in the file {p[0]} and write the number "
        "to the file {p[1]}.",
        command="grep -c {w[0]} {p[0]} > {p[1]}",
        words=1,
        inputs=1,
        outputs=1,
        lines=range(5, 13),
        result=lambda words, inputs: [[str(len(having(words[0], inputs[0])))]],
    ),
    Shape(
        family="count-3",
        instruction="Count the lines of the files {p[0]} and {p[1]} together and write the number "
        "to the file {p[2]}.",
        command="cat {p[0]} {p[1]} | wc -l > {p[2]}",
        inputs=2,
        outputs=1,
        lines=range(5, 13),
        result=lambda _, inputs: [[str(len(joined(inputs)))]],
    ),
    Shape(
        family="count-3",
        instruction="Count the lines with the word {w[0]} in the files {p[0]} and {p[1]} together "
        "and write the number to the file {p[2]}.",
        command="cat {p[0]} {p[1]} | grep -c {w[0]} > {p[2]}",
        words=1,
        inputs=2,
        outputs=1,
        lines=range(5, 13),
        result=lambda words, inputs: [[str(len(having(words[0], joined(inputs))))]],
    ),
    Shape(
        family="fix-1",
        instruction="Delete the lines with the word {w[0]} from the file {p[0]}.",
        command="sed -i /{w[0]}/d {p[0]}",
        words=1,
        inputs=1,
        result=lambda words, inputs: _without(words[0], inputs),
    ),
    Shape(
        family="fix-2",
        instruction="Replace the word {w[0]} with the word {w[1]} in the file {p[0]}.",
        command="sed -i s/{w[0]}/{w[1]}/ {p[0]}",
        words=2,
        inputs=1,
        result=_replaced,
    ),
    Shape(
        family="fix-3",
        instruction="Delete the lines with the word {w[0]} from the files {p[0]} and {p[1]}.",
        command="sed -i /{w[0]}/d {p[0]} {p[1]}",
        words=1,
        inputs=2,
        result=lambda words, inputs: _without(words[0], inputs),
    ),
    Shape(
        family="fix-3",
        instruction="Replace the word {w[0]} with the word {w[1]} in the files {p[0]} and {p[1]}.",
        command="sed -i s/{w[0]}/{w[1]}/ {p[0]} {p[1]}",
        words=2,
        inputs=2,
        result=_replaced,
    ),
)
