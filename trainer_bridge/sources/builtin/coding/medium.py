"""Medium problems: several rules that meet."""

from trainer_bridge.sources.builtin.coding.problem import Problem

PROBLEMS = (
    Problem(
        name="petty-cash",
        difficulty="medium",
        task="""\
Write a Python function `settle(lines)` for a petty cash book. Each line is `NAME AMOUNT`, with any
spaces around and between. An amount has an optional sign + or - and up to two decimals: `ann 12`,
`bo -3.5`, `ann +0.07`. Blank lines and lines that begin with # are skipped. Return a dict from
each name to its sum in whole cents, as int, without those whose sum is zero. Any other line raises
ValueError with the line's number, counted from 1, in its text. Sums must be exact.""",
        tests="""\
from solution import settle

assert settle([]) == {}
assert settle(["ann 12", "  bo   -3.5 ", "ann +0.07"]) == {"ann": 1207, "bo": -350}
assert settle(["# cash", "", "cy 0.10", "cy 0.20", "dee 1", "dee -1.00"]) == {"cy": 30}
assert settle(["ann 0.01"] * 1000) == {"ann": 1000}
assert settle(["ann -0.05"]) == {"ann": -5}
assert settle(["ann 90071992547409.93"]) == {"ann": 9007199254740993}
for bad in ("ann", "ann 1 2", "ann 1.234", "ann x", "ann --1", "ann nan", "ann 1e2"):
    try:
        settle(["bo 1", "", bad])
    except ValueError as error:
        assert "3" in str(error), f"the line's number is missing: {error}"
    else:
        raise AssertionError(f"{bad!r} was taken")
""",
        solution="""\
import re

LINE = re.compile(r"(\\S+)\\s+([+-]?)([0-9]+)(?:\\.([0-9]{1,2}))?")


def settle(lines):
    sums = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        found = LINE.fullmatch(text)
        if found is None:
            raise ValueError(f"line {number} is not NAME AMOUNT")
        name, sign, whole, part = found.groups()
        cents = int(whole) * 100 + int((part or "").ljust(2, "0"))
        sums[name] = sums.get(name, 0) + (-cents if sign == "-" else cents)
    return {name: cents for name, cents in sums.items() if cents}
""",
    ),
    Problem(
        name="parcel-labels",
        difficulty="medium",
        task="""\
Write a Python function `matches(pattern, label)` that returns True if a whole label fits a
pattern, else False. In a pattern `?` stands for exactly one character, `*` for any number of
characters, also none, and a backslash makes the next character stand for itself. Every other
character stands for itself. A pattern that ends with a lone backslash raises ValueError, whatever
the label is. Patterns with many stars against long labels must be answered at once.""",
        tests=r"""
from solution import matches

assert matches("", "") is True
assert matches("", "a") is False
assert matches("a?c", "abc") is True
assert matches("a?c", "ac") is False
assert matches("*", "") is True
assert matches("a*c", "ac") is True
assert matches("a*c", "abcbc") is True
assert matches("a*c", "abcb") is False
assert matches("*b?*", "aabc") is True
assert matches("a.c", "abc") is False
assert matches("[a]", "a") is False
assert matches(r"\*", "*") is True
assert matches(r"\*", "a") is False
assert matches(r"\\?", "\\x") is True
assert matches(r"\a", "a") is True
assert matches("a*b", "a\nb") is True
assert matches("*a" * 12 + "*c", "a" * 400) is False
assert matches("*a" * 12 + "*", "a" * 400) is True
for label in ("", "a", "\\"):
    try:
        matches("a\\", label)
    except ValueError:
        pass
    else:
        raise AssertionError("a lone backslash was taken")
""",
        solution=r"""
def matches(pattern, label):
    places = {0}
    characters = iter(pattern)
    for character in characters:
        if character == "*":
            places = set(range(min(places), len(label) + 1)) if places else places
            continue
        if character == "\\":
            character = next(characters, None)
            if character is None:
                raise ValueError("the pattern ends with a lone backslash")
            fits = character.__eq__
        else:
            fits = (lambda _: True) if character == "?" else character.__eq__
        places = {at + 1 for at in places if at < len(label) and fits(label[at])}
    return len(label) in places
""",
    ),
    Problem(
        name="tide-gauge",
        difficulty="medium",
        task="""\
Write a Python function `smooth(levels, width)` for a gauge that sometimes fails. `levels` is a list
of numbers in which None is a failed reading, and `width` an odd whole number, at least 1. Entry i
of the answer is the mean of the readings that did not fail among those from i - width // 2 to
i + width // 2, as far as the list goes. Where none of them is left it is None. An even or smaller
width raises ValueError. The answer has as many entries as `levels`.""",
        tests="""\
from solution import smooth

assert smooth([], 3) == []
assert smooth([1, 2, 6], 1) == [1, 2, 6]
assert smooth([1, 2, 6], 3) == [1.5, 3, 4]
assert smooth([0, None, 4, 8], 3) == [0, 2, 6, 6]
assert smooth([None, None, None, 4], 3) == [None, None, 4, 4]
assert smooth([None], 5) == [None]
assert smooth([0, 0], 1) == [0, 0]
assert smooth([2, 4], 9) == [3, 3]
for width in (0, 2, -1):
    try:
        smooth([1, 2], width)
    except ValueError:
        pass
    else:
        raise AssertionError(f"the width {width} was taken")
""",
        solution="""\
def smooth(levels, width):
    if width < 1 or width % 2 == 0:
        raise ValueError("width must be odd and at least 1")
    half, means = width // 2, []
    for i in range(len(levels)):
        near = [x for x in levels[max(0, i - half) : i + half + 1] if x is not None]
        means.append(sum(near) / len(near) if near else None)
    return means
""",
    ),
)
