"""Makes one system call that leads out of a container, and would do no harm if it worked.

Prints what came of it.
"""

import ctypes
import os
import platform
import stat
import sys

HERE = -100
BIND, REMOUNT = 4096, 32
READ_ALL = 3
NUMBERS = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsopen": (430, 430),
    "init_module": (175, 105),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mknodat": (259, 33),
    "mount": (165, 40),
    "move_mount": (429, 429),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
ARGUMENTS: dict[str, tuple[object, ...]] = {
    "chroot": (b"/",),
    "mknodat a disk": (HERE, b"/tmp/disk", stat.S_IFBLK | 0o600, os.makedev(8, 0)),
    "mknodat the memory": (HERE, b"/tmp/memory", stat.S_IFCHR | 0o600, os.makedev(1, 1)),
    "mount a tmpfs": (b"none", b"/mnt", b"tmpfs", 0, None),
    "mount /proc": (b"none", b"/mnt", b"proc", 0, None),
    "mount a cgroup": (b"none", b"/mnt", b"cgroup", 0, b"memory"),
    "mount a folder": (b"/", b"/mnt", None, BIND, None),
    "mount /proc/sys to write": (b"none", b"/proc/sys", None, REMOUNT, None),
    "pivot_root": (b"/", b"/mnt"),
    "sethostname": (b"elsewhere", 9),
    "syslog": (READ_ALL, ctypes.create_string_buffer(100), 100),
    "umount2 /proc/sys": (b"/proc/sys", 0),
    "umount2 /tests": (b"/tests", 0),
    "unshare users": (0x10000000,),
    "unshare mounts": (0x20000,),
    "unshare the network": (0x40000000,),
    "unshare processes": (0x20000000,),
}

name = sys.argv[1]
number = NUMBERS[name.split()[0]][("x86_64", "aarch64").index(platform.machine())]
libc = ctypes.CDLL(None, use_errno=True)
result = libc.syscall(number, *ARGUMENTS.get(name, (0, None, 0, 0, 0)))
print(f"{name}: {os.strerror(ctypes.get_errno()) if result == -1 else 'it worked'}")
