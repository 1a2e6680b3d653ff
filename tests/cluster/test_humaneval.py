"""A fixed sample of HumanEval; `make humaneval` runs all 164 problems."""

from tests.cluster.episodes import Episodes
from trainer_bridge.sources import humaneval

SAMPLE = (0, 13, 32, 38, 50, 64, 77, 93, 108, 129, 145, 163)


async def test_right_solutions_pass_and_mutilated_ones_fail(episodes: Episodes, image: str) -> None:
    problems = humaneval.problems()
    assert len(problems) == 164
    specs = {}
    for index in SAMPLE:
        for mutilated in (False, True):
            made = humaneval.episode(problems[index], image=image, mutilated=mutilated)
            specs[made["metadata"]["name"]] = made["spec"]
    ended = await episodes.run_all(specs)
    for name, one in ended.items():
        verdict, reward, _ = one.verdict
        assert verdict == ("Failed" if name.endswith("mutilated") else "Passed"), name
        if verdict == "Passed":
            assert reward == 1, name
        else:
            assert one.result.spec.reward_components["correctness"] <= 0.2, name
