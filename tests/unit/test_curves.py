"""Curves of a run: means over groups, without values that nobody measured."""

from episode_operator.view.curves import Outcome, of_run


def outcome(group: str, reward: float | None, number: int = 0) -> Outcome:
    verdict = "NoVerdict" if reward is None else "Passed" if reward == 1 else "Failed"
    return Outcome(
        name=f"{group}-m{number}",
        created="2026-11-30T12:00:00Z",
        group=group,
        verdict=verdict,
        reward=reward,
        turns=2,
        tokens=0,
        delivery="Delivered" if group.endswith("0") else None,
    )


def test_means_over_groups_in_their_order() -> None:
    run = of_run(
        "coding",
        [
            outcome("coding-000000", 1.0),
            outcome("coding-000001", None),
            outcome("coding-000000", 0.0, 1),
            outcome("coding-000002", 1.0),
            outcome("coding-eval-e1s0-abc-0", 0.0),
            outcome("coding-eval-e2s8-abc-0", 1.0),
            outcome("coding-eval-e2s8-def-0", None),
            outcome("coding-eval-before-abc-0", 0.0),
        ],
    )
    curves = {curve.name: list(curve.points) for curve in run.curves}
    assert run.groups == 3
    assert curves["reward"] == [(1, 0.5), (3, 1.0)]
    assert curves["without a verdict"] == [(1, 0.0), (2, 1.0), (3, 0.0)]
    assert curves["held-out passed"] == [(0, 0.0), (8, 1.0)]
    assert curves["tokens"] == [], "an agent that samples nothing has none"
    assert run.delivery == {"Delivered": 2, "Pending": 2}
    assert run.verdicts == {"Passed": 2, "Failed": 1, "NoVerdict": 1}


def test_a_long_run_has_no_more_points_than_fit() -> None:
    run = of_run("r", [outcome(f"r-{number:06d}", float(number % 2)) for number in range(1001)])
    (reward,) = [curve for curve in run.curves if curve.name == "reward"]
    assert 150 < len(reward.points) <= 200
    assert reward.points[-1][0] == 1001
