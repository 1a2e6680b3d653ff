"""The testScript contract (Harbor, Terminal-Bench 2): the script writes a reward file."""

from episode_operator.api.base import EnvVar
from episode_operator.api.reasons import NoVerdictReason, Verdict
from episode_operator.lifecycle.outcome import Failure, Scored
from episode_operator.sandbox.errors import CommandNotStarted
from episode_operator.verifier.base import (
    LOGS_FOLDER,
    TESTS_FOLDER,
    Context,
    TestFile,
    Verification,
    put,
    read_log,
    run,
)
from episode_operator.verifier.reward import parse_json, parse_number

_SCRIPT = f"{TESTS_FOLDER}/test.sh"
_PASS_REWARD = 1.0


async def verify(
    context: Context, *, script: str, files: list[TestFile], env: list[EnvVar]
) -> Verification:
    """Run test.sh; its exit code is ignored, the reward file it writes is everything.

    Raises:
        VerifierTimeoutError, SandboxError: as `run` does.
    """
    text = script.replace("\r\n", "\n")
    test = TestFile(_SCRIPT, text.encode(), 0o755)
    await put(context.session, [*files, test])
    command = [_SCRIPT] if text.startswith("#!") else ["/bin/sh", _SCRIPT]
    try:
        result = await run(context, command, env={v.name: v.value for v in env})
    except CommandNotStarted as error:
        return Verification(Failure(NoVerdictReason.VERIFIER_ERROR, str(error)))
    output = result.stdout.text()
    end = judge(
        await read_log(context.session, "reward.json"),
        await read_log(context.session, "reward.txt"),
        exit_code=result.exit_code,
    )
    return Verification(end, output)


def judge(json: bytes | None, text: bytes | None, *, exit_code: int) -> Scored | Failure:
    """The verdict from reward.json, else from reward.txt; without either there is none."""
    if json is not None:
        parsed = parse_json(json.decode(errors="replace"))
        if isinstance(parsed, Failure):
            return parsed
        reward, components = parsed
    elif text is not None:
        number = parse_number(text.decode(errors="replace"))
        if isinstance(number, Failure):
            return number
        reward, components = number, {"reward": number}
    else:
        return Failure(
            NoVerdictReason.REWARD_MISSING,
            f"test.sh ended with exit code {exit_code} and wrote neither reward.json nor "
            f"reward.txt in {LOGS_FOLDER}",
        )
    passed = reward >= _PASS_REWARD
    return Scored(
        verdict=Verdict.PASSED if passed else Verdict.FAILED,
        reward=reward,
        reason="TestsPassed" if passed else "TestsFailed",
        message=f"test.sh wrote reward {reward:g}",
        components=components,
    )
