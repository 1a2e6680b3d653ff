"""One attack on PID 1 by a system call; prints what came of it."""

import array
import ctypes
import os
import platform
import resource
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
READ_MEMORY, OPEN_PID, GET_FILE = {"x86_64": (310, 434, 438), "aarch64": (270, 434, 438)}[
    platform.machine()
]
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
NAME = f"\0episode-runner/{Path('/proc/self/ns/pid').readlink()}"


def checked(result: int) -> int:
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attach() -> None:
    checked(LIBC.ptrace(PTRACE_ATTACH, 1, None, None))


def seize() -> None:
    checked(LIBC.ptrace(PTRACE_SEIZE, 1, None, None))


def read() -> None:
    buffer = ctypes.create_string_buffer(8)
    here = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    there = (ctypes.c_void_p * 2)(0x400000, 8)
    checked(LIBC.syscall(READ_MEMORY, 1, here, 1, there, 1, 0))


def write() -> None:
    Path("/proc/1/mem").open("r+b").close()


def take() -> None:
    process = checked(LIBC.syscall(OPEN_PID, 1, 0))
    checked(LIBC.syscall(GET_FILE, process, 0, 0))


def limit() -> None:
    resource.prlimit(1, resource.RLIMIT_CPU, (1, 1))


def connect() -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(NAME)
        files = array.array("i", [0, 1])
        with suppress(BrokenPipeError):  # it is refused already
            client.sendmsg([b"A"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
        raise OSError(client.recv(1000).decode())


def listen() -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(NAME)


ATTACKS: tuple[Callable[[], None], ...] = (
    attach,
    seize,
    read,
    write,
    take,
    limit,
    connect,
    listen,
)

for attack in ATTACKS:
    if attack.__name__ == sys.argv[1]:
        try:
            attack()
            print(f"{attack.__name__}: it worked")
        except OSError as error:
            print(f"{attack.__name__}: {error}")
