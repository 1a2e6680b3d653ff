"""Reads the reward files of the testScript contract: strictly, and never a default."""

import json
import math
import re

from episode_operator.api.reasons import NoVerdictReason
from episode_operator.lifecycle.outcome import Failure

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def _invalid(what: str) -> Failure:
    return Failure(
        NoVerdictReason.REWARD_INVALID, f"{what}; the verifier must write one finite number"
    )


def parse_number(text: str) -> float | Failure:
    """The one finite decimal number in the text; `nan`, `inf`, `1_0` and two lines are refused."""
    stripped = text.strip()
    if _NUMBER.fullmatch(stripped) is None or not math.isfinite(value := float(stripped)):
        return _invalid(f"reward.txt holds {stripped[:80]!r}")
    return value


def _finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def parse_json(text: str) -> tuple[float, dict[str, float]] | Failure:
    """Reward and components of a reward.json: an object of finite numbers.

    The reward is its `reward`, or its only number when it holds just one.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _invalid(f"reward.json is not JSON ({error})")
    if not isinstance(value, dict) or not value:
        return _invalid("reward.json is not an object with at least one number")
    for key, number in value.items():
        if not _finite(number):
            return _invalid(f"reward.json has {key}: {str(number)[:80]}")
    components = {key: float(number) for key, number in value.items()}
    if "reward" in components:
        return components["reward"], components
    if len(components) == 1:
        return next(iter(components.values())), components
    return _invalid(f"reward.json has no key `reward` among {sorted(components)[:8]}")
