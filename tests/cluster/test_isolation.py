"""Where and as whom tests and agents run, and what is kept."""

import io
import tarfile
from typing import Any

from episode_operator.results import writer
from tests.cluster.episodes import Ended, Episodes, scripted, terminal

REWARD = "/logs/verifier/reward.txt"
SEPARATE = {"isolation": "SeparateContainer"}


def verified(script: str, **more: Any) -> dict[str, Any]:
    return {"verifier": {"testScript": {"script": script}, "timeoutSeconds": 60, **more}}


async def test_a_separate_container_has_what_is_carried_and_nothing_else(
    episodes: Episodes, busybox: str
) -> None:
    make = (
        "mkdir -p d/e; echo data > d/e/f; chmod 640 d/e/f; ln -s d/e/f link; echo x > /outside;"
        "mkdir /work2; echo 2 > /work2/two; rm -f gone"
    )
    test = (
        'test "$(cat link)" = data && test -L link && test "$(stat -c %a d/e/f)" = 640 &&'
        " test ! -e /outside && test -e /work2/two && test ! -e /workspace/gone &&"
        f" echo 1 > {REWARD}"
    )
    carry = ["/workspace", "/work2", "/not/there"]
    ended = await episodes.run(
        "carried", scripted(busybox, terminal(make), **verified(test, carry=carry, **SEPARATE))
    )
    assert ended.verdict == ("Passed", 1, "TestsPassed"), ended.result.spec.verifier_output


async def test_what_the_agent_deleted_is_not_there_either(episodes: Episodes, busybox: str) -> None:
    """The fresh container has the image's own file at the place."""
    test = f"test ! -e /etc/passwd && echo 1 > {REWARD}"
    carry = ["/etc/passwd"]
    ended = await episodes.run(
        "deleted",
        scripted(busybox, terminal("rm /etc/passwd"), **verified(test, carry=carry, **SEPARATE)),
    )
    assert ended.verdict == ("Passed", 1, "TestsPassed")


async def test_another_image_verifies(episodes: Episodes, busybox: str, image: str) -> None:
    """pytest for an image that has no Python."""
    test = "def test_it():\n    assert open('/workspace/out').read() == 'ok'\n"
    verifier = {"pytest": {"test": test}, "timeoutSeconds": 60, "image": image, **SEPARATE}
    ended = await episodes.run(
        "image", scripted(busybox, terminal("printf ok > out"), verifier=verifier)
    )
    assert ended.verdict == ("Passed", 1, "TestsPassed")


async def test_users_of_the_agent_and_the_verifier(episodes: Episodes, busybox: str) -> None:
    script = "id -u; touch /bin/x; echo 1 > /logs/verifier/x; cat /root/secret"
    spec = scripted(
        busybox,
        terminal(script),
        {"tool": "write_file", "arguments": {"path": "/etc/x", "content": "x"}},
        {"tool": "write_file", "arguments": {"path": "/tmp/mine", "content": "x"}},
        **verified(f'test "$(id -u)" = 1234 && stat -c %u /tmp/mine > {REWARD}', user="1234"),
    )
    spec["agent"]["user"] = "1"
    spec["task"]["files"] = [{"path": "/root/secret", "content": "s", "mode": "600"}]
    ended = await episodes.run("users", spec)
    assert ended.verdict == ("Passed", 1, "TestsPassed"), ended.result.spec.message
    answers = await episodes.answers(ended)
    assert answers[0].startswith("1\n")
    assert answers[0].count("Permission denied") == 2
    assert "can't create /logs/verifier/x" in answers[0]
    assert "ermission" in answers[1]


async def test_a_user_that_is_not_in_the_image(episodes: Episodes, busybox: str) -> None:
    spec = scripted(busybox)
    spec["agent"]["user"] = "somebody"
    ended = await episodes.run("nobody", spec)
    assert ended.verdict == ("NoVerdict", None, "InvalidTask")
    assert "agent.user" in ended.result.spec.message


async def test_a_service_of_the_agents_may_live_on(episodes: Episodes, busybox: str) -> None:
    test = f"pidof sleep > /dev/null && echo 1 > {REWARD}"
    keep = await episodes.run(
        "keep",
        scripted(
            busybox,
            terminal("sleep 300", background=True),
            **verified(test, agentProcesses="Keep"),
        ),
    )
    assert keep.verdict == ("Passed", 1, "TestsPassed")


async def test_artifacts_are_kept(episodes: Episodes, busybox: str) -> None:
    spec = scripted(
        busybox,
        terminal("mkdir d; echo one > d/one; ln -s one d/two; echo alone > alone"),
        test=f"echo seen; echo 1 > {REWARD}",
        artifacts=["/workspace/d", "/workspace/alone", "/workspace/absent", "/logs/verifier"],
    )
    ended = await episodes.run("artifacts", spec)
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert list(ended.result.spec.artifacts_missing) == ["/workspace/absent"]
    archive = await kept(episodes, ended)
    names = {member.name: member for member in archive.getmembers()}
    assert names["workspace/d/two"].issym()
    content = archive.extractfile("workspace/d/one")
    assert content is not None
    assert content.read() == b"one\n"
    assert {"workspace/alone", "logs/verifier/reward.txt"} <= names.keys()


async def test_too_many_artifacts_cost_no_verdict(episodes: Episodes, busybox: str) -> None:
    spec = scripted(
        busybox,
        terminal("head -c 9000000 /dev/urandom > big; echo small > small"),
        artifacts=["/workspace/big", "/workspace/small"],
    )
    ended = await episodes.run("big", spec)
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert "/workspace/big" in ended.result.spec.artifacts_missing
    assert (await kept(episodes, ended)).getnames() == ["workspace/small"]


async def kept(episodes: Episodes, ended: Ended) -> tarfile.TarFile:
    blob = ended.result.spec.artifacts
    assert blob is not None
    data = await writer.read_blob(episodes.client, namespace=episodes.namespace, blob=blob)
    return tarfile.open(fileobj=io.BytesIO(data))
