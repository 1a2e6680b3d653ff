"""Python runs of verifiers: isolated from what an agent may have left in the workdir.

`-I` keeps PYTHON* variables, the user's site folder and the working directory out. The workdir is
added at the very end of the module path, so that tests find the solution, but nothing of the
agent's can stand in for a module of the standard library or of the test run.
"""

from episode_operator.api.reasons import NoVerdictReason
from episode_operator.lifecycle.outcome import Failure
from episode_operator.sandbox.errors import CommandNotStarted
from episode_operator.sandbox.results import ExecResult
from episode_operator.verifier.base import Context, run

_INTERPRETERS = ("python3", "python")
_PREAMBLE = "import sys\nworkdir, *sys.argv = sys.argv[1:]\nsys.path.append(workdir)\n"


async def run_isolated(
    context: Context,
    source: str,
    *arguments: str,
    env: dict[str, str] | None = None,
    stdin: bytes = b"",
) -> ExecResult | Failure:
    """Run a program with the image's Python, `sys.argv` being the arguments.

    Raises:
        VerifierTimeoutError, SandboxError: as `run` does.
    """
    for interpreter in _INTERPRETERS:
        command = [interpreter, "-I", "-B", "-c", _PREAMBLE + source, context.workdir, *arguments]
        try:
            return await run(context, command, env=env, stdin=stdin)
        except CommandNotStarted as error:
            if error.errno != "ENOENT":
                return Failure(NoVerdictReason.VERIFIER_ERROR, str(error))
    return Failure(
        NoVerdictReason.PYTHON_MISSING,
        f"the image has neither {' nor '.join(_INTERPRETERS)} on its PATH; this contract needs it",
    )
