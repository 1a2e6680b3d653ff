"""What happens in a sandbox before the agent acts."""

import contextlib
from collections.abc import Sequence

from episode_operator.api.base import Archive, File
from episode_operator.api.network import Network
from episode_operator.api.task import Setup
from episode_operator.controller import inputs
from episode_operator.controller.inputs import InvalidInputError
from episode_operator.kube.client import KubernetesClient
from episode_operator.sandbox.errors import (
    ArchiveErrors,
    CommandNotStarted,
    FileError,
    FileNotFound,
    InvalidRequest,
)
from episode_operator.sandbox.memory import check_memory
from episode_operator.sandbox.network import (
    UNCHECKED,
    Cluster,
    probe_address,
    wait_until_closed,
)
from episode_operator.sandbox.pod import SandboxSettings
from episode_operator.sandbox.session import Session
from episode_operator.verifier.base import fresh_folders

_POD_FILES = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
_POD_FILE_BYTES = 1 << 20


class SetupError(Exception):
    """A file of the task could not be written, or its setup script failed."""


async def cut_off(
    session: Session, network: Network, settings: SandboxSettings, cluster: Cluster
) -> str | None:
    """Return once the sandbox is known to be cut off; what to warn of where that is not checked.

    Raises:
        NetworkNotEnforced: it is not cut off.
    """
    if not settings.require_network_policy:
        return None
    address = probe_address(network, cluster)
    if address is None:
        return UNCHECKED
    await wait_until_closed(session, address)
    return None


async def read_pod_files(session: Session) -> dict[str, bytes]:
    """The files that the kubelet mounts, writable, into every container of a pod.

    Raises:
        SandboxError: the sandbox failed.
    """
    found = {}
    for path in _POD_FILES:
        with contextlib.suppress(FileNotFound):
            found[path] = (await session.read_file(path, limit_bytes=_POD_FILE_BYTES)).data
    return found


async def check_access(session: Session, user: str | None) -> None:
    """Make sure that the agent can act, as its user and in the working directory.

    Raises:
        InvalidInputError: the image has no such user, the container does not run as root, or the
            working directory may not be entered.
    """
    try:
        await session.stat(".", user=user)
    except InvalidRequest as error:
        raise InvalidInputError(f"agent.user: {error}") from error
    except FileError as error:
        raise InvalidInputError(f"the working directory cannot be entered: {error}") from error


async def put(
    client: KubernetesClient,
    namespace: str,
    session: Session,
    *,
    files: Sequence[File],
    archives: Sequence[Archive],
    request_id: str,
) -> None:
    """Write the task's files.

    Raises:
        InvalidInputError: a reference leads nowhere.
        SetupError: a file cannot be written.
        SandboxError: the sandbox failed.
    """
    try:
        for archive in await inputs.archives(client, namespace, archives):
            unpack = f"{request_id}.unpack{archive.path}"
            await session.unpack(archive.path, archive.content, request_id=unpack)
        for file in await inputs.files(client, namespace, files):
            await session.write_file(file.path, file.content, mode=file.mode, parents=True)
    except ArchiveErrors as error:
        raise SetupError(f"task files: {error}") from error


async def run_setup(session: Session, setup: Setup | None, *, request_id: str) -> None:
    """Run the setup script as the container's user.

    Raises:
        SetupError: it cannot be started, fails or times out.
        SandboxError: the sandbox failed.
    """
    if setup is None:
        return
    try:
        result = await session.exec(
            setup.script,
            timeout_seconds=setup.timeout_seconds,
            request_id=request_id,
            merge_output=True,
        )
    except CommandNotStarted as error:
        raise SetupError(f"the setup script cannot be started: {error}") from error
    check_memory(result, pod_uid=session.pod_uid)
    if result.exit_code != 0 or result.timed_out:
        how = "timed out" if result.timed_out else f"ended with exit code {result.exit_code}"
        raise SetupError(f"the setup script {how}: {result.stdout.text()[-1000:]}")


async def leave_no_tests(session: Session, *, request_id: str) -> None:
    """Take the tests of the step before away, with what they left running and what they wrote.

    Raises:
        SetupError: a folder cannot be emptied.
        SandboxError: the sandbox failed.
    """
    await session.kill_all(request_id=f"{request_id}.kill")
    try:
        await fresh_folders(session, request_id=request_id)
    except FileError as error:
        raise SetupError(f"the tests of the step before cannot be removed: {error}") from error
