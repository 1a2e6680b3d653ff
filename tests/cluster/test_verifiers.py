"""Every contract on a real pod: Passed, Failed, or no verdict with its reason."""

import pytest

from tests.cluster.episodes import Ended
from tests.cluster.verifications import CASES


@pytest.mark.parametrize("name", CASES)
async def test_verdict(verified: dict[str, Ended], name: str) -> None:
    verdict, reward, reason = verified[name].verdict
    expected = CASES[name][1]
    message = verified[name].result.spec.message + verified[name].result.spec.verifier_output
    assert (verdict, reason) == (expected[0], expected[2]), message
    assert reward == (None if expected[1] is None else pytest.approx(expected[1])), message


async def test_components_are_published(verified: dict[str, Ended]) -> None:
    components = {name: verified[name].result.spec.reward_components for name in verified}
    assert components["script-json"] == {"reward": 1, "style": 0.5}
    assert components["pytest-passed"] == {"passed": 1, "failed": 0, "skipped": 0}
    assert components["code-passed"] == {"correctness": 1, "efficiency": 1, "toolUse": 0.6}


async def test_no_verdict_is_a_failed_condition_with_a_message(verified: dict[str, Ended]) -> None:
    status = verified["script-missing-program"].episode.status
    conditions = {c.type: c for c in status.conditions}
    assert conditions["Failed"].status == "True"
    assert conditions["Verified"].status == "False"
    assert conditions["Finished"].status == "True"
    assert "reward.txt" in conditions["Failed"].message
    assert status.reward is None
