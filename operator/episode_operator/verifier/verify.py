"""Runs the one contract an Episode names."""

from episode_operator.api.reasons import NoVerdictReason
from episode_operator.api.verifier import Verifier
from episode_operator.lifecycle.outcome import Failure
from episode_operator.sandbox.errors import FileError
from episode_operator.verifier import pytest, test_code, test_script
from episode_operator.verifier.base import (
    Context,
    TestFile,
    Verification,
    VerifierTimeoutError,
    prepare,
)


async def verify(context: Context, verifier: Verifier, files: list[TestFile]) -> Verification:
    """Clean the pod, let the tests in, and give the verdict or the reason why there is none.

    `files` are the contract's additional files, with their content resolved.

    Raises:
        SandboxError: the sandbox failed; that is never a verdict.
    """
    try:
        await prepare(context.session)
        return await _contract(context, verifier, files)
    except FileError as error:
        return Verification(
            Failure(NoVerdictReason.VERIFIER_ERROR, f"the tests cannot be written: {error}")
        )
    except VerifierTimeoutError as error:
        message = (
            f"the verifier was killed after {context.timeout_seconds} s; "
            "raise verifier.timeoutSeconds if it needs more"
        )
        return Verification(Failure(NoVerdictReason.VERIFIER_TIMEOUT, message), str(error))


async def _contract(context: Context, verifier: Verifier, files: list[TestFile]) -> Verification:
    if verifier.pytest is not None:
        return await pytest.verify(context, test=verifier.pytest.test, files=files)
    if verifier.test_script is not None:
        contract = verifier.test_script
        return await test_script.verify(
            context, script=contract.script, files=files, env=contract.env
        )
    assert verifier.test_code is not None  # CEL admits exactly one contract
    return await test_code.verify(context, code=verifier.test_code.code)
