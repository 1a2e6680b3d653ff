"""Reads the reward files of the testScript contract: strictly, and never a default."""

import json
import math
import re

_MOST_COMPONENTS = 64
_LONGEST_NAME = 128
"""A result with more would not fit into etcd."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class InvalidRewardError(Exception):
    """The verifier wrote something else than finite numbers; the message quotes it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; the verifier must write one finite number")


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidRewardError(f"{name} is not UTF-8 ({error.reason})") from error


def parse_number(content: bytes) -> float:
    """The one finite decimal number of a reward.txt.

    Raises:
        InvalidRewardError: anything else, `nan`, `inf`, `1_0` and two lines included.
    """
    stripped = _text(content, "reward.txt").strip()
    if _NUMBER.fullmatch(stripped) is None or not math.isfinite(value := float(stripped)):
        raise InvalidRewardError(f"reward.txt holds {stripped[:80]!r}")
    return value


def _named_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A name that is there twice says two things; one that is no text fits in no result."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    for name in found:
        name.encode()
    return found


def _finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def parse_json(content: bytes) -> tuple[float, dict[str, float]]:
    """Reward and components of a reward.json: an object of finite numbers.

    The reward is its `reward`, or its only number when it holds just one.

    Raises:
        InvalidRewardError: it is anything else.
    """
    try:
        value = json.loads(_text(content, "reward.json"), object_pairs_hook=_named_once)
    except (ValueError, RecursionError) as error:
        raise InvalidRewardError(f"reward.json is not JSON ({error})") from error
    if not isinstance(value, dict) or not value:
        raise InvalidRewardError("reward.json is not an object with at least one number")
    if len(value) > _MOST_COMPONENTS or max(map(len, value)) > _LONGEST_NAME:
        raise InvalidRewardError(
            f"reward.json has more than {_MOST_COMPONENTS} names, or one of more than "
            f"{_LONGEST_NAME} characters"
        )
    for key, number in value.items():
        if not _finite(number):
            raise InvalidRewardError(f"reward.json has {key!r:.80}: {number!r:.80}")
    components = {key: float(number) for key, number in value.items()}
    if "reward" in components:
        return components["reward"], components
    if len(components) == 1:
        return next(iter(components.values())), components
    raise InvalidRewardError(f"reward.json has no key `reward` among {sorted(components)[:8]}")
