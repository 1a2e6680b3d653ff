"""Runs the one contract of an Episode, or of a step, where its isolation says."""

from collections.abc import Sequence

from episode_operator.api.decisions import Happening
from episode_operator.api.verifier import AgentProcesses, Verifier
from episode_operator.sandbox.archives import carry
from episode_operator.sandbox.errors import ArchiveErrors, FileError, InvalidRequest
from episode_operator.sandbox.session import Session
from episode_operator.verifier import pytest, test_code, test_script
from episode_operator.verifier.base import (
    Context,
    NoVerdictError,
    Tests,
    Verification,
    fresh_folders,
)

_CARRY_LIMIT_BYTES = 4 << 30


async def verify(
    context: Context, verifier: Verifier, tests: Tests, *, agent: Session
) -> Verification:
    """Clean the pod, let the tests in, and give the verdict or the reason why there is none.

    `agent` leads to the container that the agent worked in; it is the context's own session unless
    the tests run in a separate one.

    Raises:
        SandboxError: the sandbox failed; that is never a verdict.
    """
    try:
        if verifier.agent_processes is AgentProcesses.KILL:
            await agent.kill_all(request_id=f"{context.name}.kill")
        if verifier.separate:
            await _carry(context, verifier.carry or [context.workdir], agent)
        await _make_folders(context)
        return await _contract(context, verifier, tests)
    except NoVerdictError as error:
        return Verification(context.end(error.happening, str(error)), error.output)


async def _make_folders(context: Context) -> None:
    try:
        await fresh_folders(context.session, request_id=context.name, logs_owner=context.user)
        # Removed by the agent, or not carried: that is no reason not to run the tests.
        await context.session.make_directory(context.workdir, parents=True)
        for path, content in context.pod_files.items():
            if (await context.session.read_file(path)).data != content:
                await context.session.write_file(path, content)
    except FileError as error:
        raise NoVerdictError(
            Happening.TESTS_NOT_WRITTEN, f"the tests' folders cannot be made: {error}"
        ) from error
    except InvalidRequest as error:
        raise NoVerdictError(Happening.TESTS_NOT_STARTED, f"verifier.user: {error}") from error


async def _carry(context: Context, paths: Sequence[str], agent: Session) -> None:
    """Make the paths in the separate container what they are in the agent's, absent ones too.

    What is no file, folder or link, or cannot be read, is not there: the tests are to judge that.
    """
    if "/" in paths:
        raise NoVerdictError(
            Happening.NOT_CARRIED, "the whole file system cannot be carried; set verifier.carry"
        )
    try:
        carried = await carry(
            agent,
            context.session,
            paths,
            limit_bytes=_CARRY_LIMIT_BYTES,
            request_id=f"{context.name}.carry",
        )
    except ArchiveErrors as error:
        raise NoVerdictError(Happening.NOT_CARRIED, f"verifier.carry: {error}") from error
    if carried.too_large:
        raise NoVerdictError(Happening.NOT_CARRIED, f"verifier.carry: {carried.too_large}")


async def _contract(context: Context, verifier: Verifier, tests: Tests) -> Verification:
    if verifier.pytest is not None:
        return await pytest.verify(context, test=verifier.pytest.test, tests=tests)
    if verifier.test_script is not None:
        return await test_script.verify(context, script=verifier.test_script.script, tests=tests)
    assert verifier.test_code is not None  # CEL admits exactly one contract
    return await test_code.verify(context, code=verifier.test_code.code)
