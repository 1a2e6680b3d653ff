"""The testCode contract (AgenticOPD): Python tests of solution.py, composite reward."""

from episode_operator.api.decisions import Happening
from episode_operator.verifier.base import (
    TESTS_FOLDER,
    Context,
    TestFile,
    Tests,
    Verification,
    put,
)
from episode_operator.verifier.composite import (
    ASSERTION_FAILED,
    OTHER_ERROR,
    PASSED,
    SAID_PASSED,
    composite,
)
from episode_operator.verifier.python import run_isolated

_TEST = f"{TESTS_FOLDER}/test_solution.py"
_UNFINISHED = 1

_PROGRAM = """\
import runpy, traceback
secret = sys.stdin.read()
sys.stdin = open(os.devnull)
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    passed = [os.path.abspath(frame.filename) for frame in traceback.extract_tb(end.__traceback__)]
    inside = os.path.join(os.path.abspath(workdir), "")
    if end.code not in (None, 0) or any(name.startswith(inside) for name in passed):
        raise
print()
print(secret)
"""
"""Prints the secret only after the whole test ran: an exit in imported code, whether by
`os._exit(0)` or by SystemExit, is no pass."""


async def verify(context: Context, *, code: str) -> Verification:
    """Run the test code beside the solution.

    Raises:
        NoVerdictError, SandboxError: as `run_isolated` does.
    """
    await put(context, Tests(), TestFile(_TEST, code.encode(), 0o644))
    result = await run_isolated(context, _PROGRAM, _TEST, stdin=context.secret.encode())
    output = result.stdout.text()
    finished = context.secret in output
    output = output.replace(context.secret, "").rstrip()
    early = result.exit_code == 0 and not finished
    reward, components = composite(_UNFINISHED if early else result.exit_code, output, context.use)
    ended = f"the tests ended with exit code {result.exit_code}"
    end = context.end(
        Happening.CODE_ENDED_EARLY if early else _HAPPENED[components["correctness"]],
        f"{ended} before their end" if early else ended,
        reward=reward,
        components=components,
    )
    return Verification(end, output)


_HAPPENED = {
    SAID_PASSED: Happening.CODE_PASSED,
    PASSED: Happening.CODE_PASSED,
    ASSERTION_FAILED: Happening.CODE_ASSERTION_FAILED,
    OTHER_ERROR: Happening.CODE_FAILED,
}
