"""Hard problems: an algorithm or a small language."""

from trainer_bridge.sources.builtin.coding.problem import Problem

PROBLEMS = (
    Problem(
        name="rehearsal-plan",
        difficulty="hard",
        task="""\
Write a Python function `plan(scenes)` for a theatre. `scenes` maps each scene to the list of scenes
that have to be rehearsed before it; a scene may also occur only in such a list. Return all scenes
as a list in which each comes after those it waits for. Whenever several could be next, the
alphabetically first is. If scenes wait for each other in a circle, raise ValueError whose text
names every scene of one circle, and no scene that is in none. There can be 50,000 scenes in a row,
each of which waits for the one before it.""",
        tests="""\
from solution import plan

assert plan({}) == []
assert plan({"b": [], "a": []}) == ["a", "b"]
assert plan({"duel": ["feast"], "feast": ["arrival"]}) == ["arrival", "feast", "duel"]
assert plan({"a": ["z"], "b": [], "c": ["b"]}) == ["b", "c", "z", "a"]
assert plan({"a": ["b", "b"]}) == ["b", "a"]
names = [f"s{number:05}" for number in range(50_000)]
assert plan({after: [before] for before, after in zip(names, names[1:])}) == names
for scenes, circle, free in (
    ({"alone": ["alone"], "other": []}, {"alone"}, {"other"}),
    ({"kiss": ["quarrel"], "quarrel": ["kiss"], "end": ["kiss"]}, {"kiss", "quarrel"}, {"end"}),
    ({"x1": ["x2"], "x2": ["x3", "y"], "x3": ["x1"]}, {"x1", "x2", "x3"}, {"y"}),
):
    try:
        plan(scenes)
    except ValueError as error:
        text = str(error)
        assert all(scene in text for scene in circle), text
        assert not any(repr(scene) in text for scene in free), text
    else:
        raise AssertionError("a circle was taken")
""",
        solution="""\
import heapq


def plan(scenes):
    waits = {scene: set(before) for scene, before in scenes.items()}
    for before in scenes.values():
        for scene in before:
            waits.setdefault(scene, set())
    after = {scene: [] for scene in waits}
    for scene, before in waits.items():
        for other in before:
            after[other].append(scene)
    left = {scene: len(before) for scene, before in waits.items()}
    ready = [scene for scene, count in left.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        scene = heapq.heappop(ready)
        order.append(scene)
        for other in after[scene]:
            left[other] -= 1
            if not left[other]:
                heapq.heappush(ready, other)
    if len(order) < len(waits):
        raise ValueError(f"these wait for each other: {circle(waits, set(order))}")
    return order


def circle(waits, done):
    path = [next(scene for scene in waits if scene not in done)]
    while True:
        scene = next(other for other in waits[path[-1]] if other not in done)
        if scene in path:
            return path[path.index(scene) :]
        path.append(scene)
""",
    ),
    Problem(
        name="recipe-scale",
        difficulty="hard",
        task="""\
Write a Python function `amount(text)` that works out the amounts in a cook's notes, exactly, as
fractions.Fraction. An amount is made of whole numbers, `+`, `-`, `*`, `/`, parentheses and spaces;
`*` and `/` bind more strongly than `+` and `-`, and what binds alike goes from left to right. A
minus may also stand before a number, a parenthesis or another minus: `2*-3`, `--4`. A whole number
and a fraction with only spaces between them are a mixed number, which binds most strongly of all:
`1 1/2` is three halves, `2*1 1/2` is three, and `-1 1/2` is minus three halves. A division by zero
raises ZeroDivisionError, anything that is no amount raises ValueError.""",
        tests="""\
from fractions import Fraction

from solution import amount

for text, value in {
    "7": 7,
    " 1+2*3 ": 7,
    "(1+2)*3": 9,
    "7-2-1": 4,
    "8/4/2": 1,
    "1/3": Fraction(1, 3),
    "1/3+1/6": Fraction(1, 2),
    "2*-3": -6,
    "--4": 4,
    "-(1-3)": 2,
    "1 1/2": Fraction(3, 2),
    "2*1 1/2": 3,
    "-1 1/2": Fraction(-3, 2),
    "3-1 1/2": Fraction(3, 2),
    "1 1/2 + 2 3/4": Fraction(17, 4),
    "6/1 1/2": 4,
    "0 1/4": Fraction(1, 4),
    "(((2)))": 2,
    "12345678901234567890*10": 123456789012345678900,
}.items():
    found = amount(text)
    assert isinstance(found, Fraction), f"{text!r} gave a {type(found).__name__}"
    assert found == value, f"{text!r} gave {found}"
for text in ("", " ", "1+", "*2", "(1", "1)", "()", "1 2", "1.5", "2(3)", "a", "1//2", "1**2", "+1",
             "__import__('os')"):
    try:
        found = amount(text)
    except ValueError:
        pass
    else:
        raise AssertionError(f"{text!r} was taken as {found}")
for text in ("1/0", "1/(2-2)", "1 1/0"):
    try:
        amount(text)
    except ZeroDivisionError:
        pass
    else:
        raise AssertionError(f"{text!r} was taken")
""",
        solution="""\
import re
from fractions import Fraction

TOKEN = re.compile(r"\\s*(?:([0-9]+)\\s+([0-9]+)\\s*/\\s*([0-9]+)|([0-9]+)|([-+*/()]))")


def amount(text):
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"{text[at:]!r} is no amount")
        whole, upper, lower, number, sign = found.groups()
        if whole is not None:
            tokens.append(int(whole) + Fraction(int(upper), int(lower)))
        else:
            tokens.append(sign or Fraction(int(number)))
        at = found.end()
    value, rest = total(tokens)
    if rest:
        raise ValueError(f"{rest[0]} is out of place")
    return value


def total(tokens):
    value, tokens = product(tokens)
    while tokens and tokens[0] in ("+", "-"):
        other, rest = product(tokens[1:])
        value, tokens = (value + other if tokens[0] == "+" else value - other), rest
    return value, tokens


def product(tokens):
    value, tokens = factor(tokens)
    while tokens and tokens[0] in ("*", "/"):
        other, rest = factor(tokens[1:])
        value, tokens = (value * other if tokens[0] == "*" else value / other), rest
    return value, tokens


def factor(tokens):
    if not tokens:
        raise ValueError("the amount ends too early")
    first, rest = tokens[0], tokens[1:]
    if isinstance(first, Fraction):
        return first, rest
    if first == "-":
        value, rest = factor(rest)
        return -value, rest
    if first == "(":
        value, rest = total(rest)
        if rest[:1] == [")"]:
            return value, rest[1:]
    raise ValueError(f"{first} is out of place")
""",
    ),
)
