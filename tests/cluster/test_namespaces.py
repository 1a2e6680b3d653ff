"""Two operators in one cluster, each with namespaces of its own."""

from pathlib import Path

from tests.cluster.episodes import Episodes, scripted, terminal
from tests.cluster.local_operator import operating
from tests.testbed import stack

ONCE = "test $(wc -l < count) = 1 && cp count /logs/verifier/reward.txt"


async def test_each_operator_runs_the_episodes_of_its_namespaces(
    episodes: Episodes, unwatched: Episodes, busybox: str, tmp_path: Path
) -> None:
    """The testbed's operator leaves alone what matches its pattern, until another one comes."""
    spec = scripted(busybox, terminal("echo 1 >> count"), test=ONCE)
    await unwatched.create("left", spec)
    for name in ("first", "second"):
        ended = await episodes.run(name, spec)
        assert ended.verdict == ("Passed", 1, "TestsPassed")
    left = await unwatched.get("left")
    assert left.status.phase is None
    assert await unwatched.pods("left") == []
    async with operating(unwatched, tmp_path):
        ended = await unwatched.finish("left")
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert ended.episode.status.attempts == []


async def test_what_is_left_to_others_goes_before_what_is_watched(
    unwatched: Episodes, busybox: str, tmp_path: Path
) -> None:
    """Of two watched namespaces one matches a pattern: nothing of it is touched."""
    async with Episodes.in_namespace(unwatched.client, stack.UNWATCHED) as others:
        settings = {
            "EPISODE_WATCH_NAMESPACES": f"{unwatched.namespace},{others.namespace}",
            "EPISODE_IGNORE_NAMESPACES": f"none-of-it,{others.namespace[:-1]}?",
        }
        await others.create("left", scripted(busybox))
        async with operating(unwatched, tmp_path, settings):
            ended = await unwatched.run("own", scripted(busybox))
        assert ended.verdict == ("Passed", 1, "TestsPassed")
        assert (await others.get("left")).status.phase is None
        assert await others.pods("left") == []
