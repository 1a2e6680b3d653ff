"""The testScript contract (Harbor, Terminal-Bench 2): the script writes a reward file."""

from episode_operator.api.decisions import Contract, Happening
from episode_operator.lifecycle.outcome import Failure, Scored, decided
from episode_operator.sandbox.errors import CommandNotStarted
from episode_operator.verifier.base import (
    LOGS_FOLDER,
    TESTS_FOLDER,
    Context,
    NoVerdictError,
    TestFile,
    Tests,
    Verification,
    put,
    read_log,
    run,
)
from episode_operator.verifier.reward import InvalidRewardError, parse_json, parse_number

_SCRIPT = f"{TESTS_FOLDER}/test.sh"
_PASS_REWARD = 1.0


async def verify(context: Context, *, script: str, tests: Tests) -> Verification:
    """Run test.sh; its exit code is ignored, the reward file it writes is everything.

    Raises:
        NoVerdictError, SandboxError: as `run` does.
    """
    text = script.replace("\r\n", "\n")
    await put(context, tests, TestFile(_SCRIPT, text.encode(), 0o755))
    command = [_SCRIPT] if text.startswith("#!") else ["/bin/sh", _SCRIPT]
    try:
        result = await run(context, command)
    except CommandNotStarted as error:
        raise NoVerdictError(Happening.TESTS_NOT_STARTED, str(error)) from error
    end = judge(
        await read_log(context, "reward.json"),
        await read_log(context, "reward.txt"),
        exit_code=result.exit_code,
    )
    return Verification(end, result.stdout.text())


def judge(json: bytes | None, text: bytes | None, *, exit_code: int) -> Scored | Failure:
    """The verdict from reward.json, else from reward.txt; without either there is none."""
    try:
        if json is not None:
            reward, components = parse_json(json)
        elif text is not None:
            reward = parse_number(text)
            components = {"reward": reward}
        else:
            return decided(
                Happening.REWARD_MISSING,
                Contract.TEST_SCRIPT,
                f"test.sh ended with exit code {exit_code} and wrote neither reward.json nor "
                f"reward.txt in {LOGS_FOLDER}",
            )
    except InvalidRewardError as error:
        return decided(Happening.REWARD_INVALID, Contract.TEST_SCRIPT, str(error))
    reached = reward >= _PASS_REWARD
    return decided(
        Happening.REWARD_REACHED if reached else Happening.REWARD_BELOW,
        Contract.TEST_SCRIPT,
        f"test.sh wrote reward {reward:g}",
        reward=reward,
        components=components,
    )
