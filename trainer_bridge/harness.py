"""A result counts only if it names the harness that scored it, and it is the one asked for.

A plausible number from another harness, or from an operator that does not tell, would mis-score a
whole run without a trace. (OpenEnv marks its results in the same way.)
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from episode_operator.api.episode import EpisodeSpec
from episode_operator.api.result import EpisodeResult
from trainer_bridge.sources.task import first_error


class HarnessError(Exception):
    """A result that must be dropped: nobody knows what its reward means."""


def checked(result: Mapping[str, Any], asked: EpisodeSpec) -> EpisodeResult:
    """The EpisodeResult of an Episode with the spec `asked`.

    Raises:
        HarnessError: it names no harness, or another one than the Episode's last verifier.
    """
    expected = asked.plan[-1].verifier.contract
    harness = result.get("spec", {}).get("harness")
    if not harness:
        raise HarnessError("the result does not say which harness scored it")
    if harness != expected:
        raise HarnessError(f"the result was scored by {harness}, not by {expected}")
    try:
        return EpisodeResult.model_validate(result)
    except ValidationError as error:
        raise HarnessError(f"the result cannot be read: {first_error(error)}") from error
