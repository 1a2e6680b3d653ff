"""The testCode contract (AgenticOPD): Python tests of solution.py, composite reward."""

from episode_operator.api.reasons import Verdict
from episode_operator.lifecycle.outcome import Failure, Scored
from episode_operator.verifier.base import TESTS_FOLDER, Context, TestFile, Verification, put
from episode_operator.verifier.composite import PASS_CORRECTNESS, composite
from episode_operator.verifier.python import run_isolated

_TEST = f"{TESTS_FOLDER}/test_solution.py"
_UNFINISHED = 1

_PROGRAM = """\
import os, runpy
secret = sys.stdin.read()
sys.stdin = open(os.devnull)
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    if end.code not in (None, 0):
        raise
print()
print(secret)
"""
"""Prints the secret only after the whole test ran: `os._exit(0)` in imported code is no pass."""


async def verify(context: Context, *, code: str) -> Verification:
    """Run the test code beside the solution.

    Raises:
        VerifierTimeoutError, SandboxError: as `run` does.
    """
    await put(context.session, [TestFile(_TEST, code.encode(), 0o644)])
    result = await run_isolated(
        context,
        _PROGRAM,
        _TEST,
        stdin=context.secret.encode(),
    )
    if isinstance(result, Failure):
        return Verification(result)
    output = result.stdout.text()
    finished = context.secret in output
    output = output.replace(context.secret, "").rstrip()
    exit_code = result.exit_code if finished or result.exit_code else _UNFINISHED
    reward, components = composite(exit_code, output, context.use)
    passed = components["correctness"] >= PASS_CORRECTNESS
    return Verification(
        Scored(
            verdict=Verdict.PASSED if passed else Verdict.FAILED,
            reward=reward,
            reason="TestsPassed" if passed else "TestsFailed",
            message=f"the tests ended with exit code {result.exit_code}"
            + ("" if finished or result.exit_code else " before their end"),
            components=components,
        ),
        output,
    )
