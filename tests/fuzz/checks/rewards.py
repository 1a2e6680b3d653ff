"""Reward files: only what a strict reading of our own takes for a number may become a reward."""

import re
from collections.abc import Callable
from fractions import Fraction
from functools import reduce

import orjson

from episode_operator.verifier.reward import InvalidRewardError, parse_json, parse_number

_DIGITS = frozenset("0123456789")
_MOST_DIGITS = 4000
"""Python refuses to convert more digits at once to an integer."""
_FARTHEST = 800
"""Powers of ten beyond this are zero or no finite number, whatever their first digits are."""

_STRING = r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_SPACE = r"[ \t\n\r]*"
_PAIR = re.compile(rf"{_SPACE}({_STRING}){_SPACE}:{_SPACE}({_NUMBER}){_SPACE}")


def number(text: str) -> float | None:
    """The number by exact arithmetic, or None where the text is not one finite decimal number."""
    body = text.strip().replace("E", "e")
    negative = body.startswith("-")
    mantissa, marker, exponent = body.removeprefix("-" if negative else "+").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    power = exponent[1:] if exponent.startswith(("+", "-")) else exponent
    if not digits or not _DIGITS.issuperset(digits):
        return None
    if marker and (not power or not _DIGITS.issuperset(power)):
        return None
    shift = _integer(power or "0") * (-1 if exponent.startswith("-") else 1) - len(fraction)
    return _float(_integer(digits), shift, negative=negative)


def _integer(digits: str) -> int:
    chunks = (digits[i : i + _MOST_DIGITS] for i in range(0, len(digits), _MOST_DIGITS))
    return reduce(lambda value, chunk: value * 10 ** len(chunk) + int(chunk), chunks, 0)


def _float(value: int, shift: int, *, negative: bool) -> float | None:
    size = value.bit_length() * 3 // 10 + shift  # about the decimal exponent
    if not value or size < -_FARTHEST:
        return 0.0
    if size > _FARTHEST:
        return None
    scaled = Fraction(value) * Fraction(10) ** shift
    try:
        return float(-scaled if negative else scaled)
    except OverflowError:
        return None


def components(text: str) -> dict[str, float] | None:
    """The numbers of a reward.json, or None where it is not one flat object of finite numbers."""
    body = text.strip(" \t\n\r")
    if len(body) < 2 or body[0] != "{" or body[-1] != "}":
        return None
    found: dict[str, float] = {}
    position, end = 1, len(body) - 1
    while True:
        pair = _PAIR.match(body, position, end)
        if pair is None:
            return None
        try:
            name: str = orjson.loads(pair[1])
        except orjson.JSONDecodeError:  # a lone surrogate: it could not be written to a result
            return None
        value = number(pair[2])
        if value is None or name in found:
            return None
        found[name] = value
        if pair.end() == end:
            return found
        if body[pair.end()] != ",":
            return None
        position = pair.end() + 1


def fuzz_text(content: bytes) -> None:
    """A reward.txt."""
    _compare(content, parse_number, number)


def fuzz_json(content: bytes) -> None:
    """A reward.json."""
    _compare(content, parse_json, _reward)


def _reward(text: str) -> tuple[float, dict[str, float]] | None:
    found = components(text)
    if found is None or (len(found) > 1 and "reward" not in found):
        return None
    return found.get("reward", next(iter(found.values()))), found


def _compare(
    content: bytes, parse: Callable[[bytes], object], reading: Callable[[str], object | None]
) -> None:
    try:
        expected = reading(content.decode())
    except UnicodeDecodeError:
        expected = None
    try:
        read = parse(content)
    except InvalidRewardError as error:
        assert expected is None, f"{content!r} is {expected}, and was refused: {error}"
        orjson.dumps(str(error))  # it goes into the status
    else:
        assert read == expected, f"{content!r} is {expected}, and was read as {read}"
