"""Out of the container: mounts, namespaces, devices, privileges and the kernel's own files."""

from tests.cluster.attacks.attack import IMAGE, Attack, Attempt, payload, tries

_DENIED = "(?i:not permitted|permission denied|read-only file system|no such file|cannot set)"
_CALLS = (
    "acct",
    "add_key",
    "bpf",
    "chroot",
    "clock_settime",
    "delete_module",
    "fanotify_init",
    "finit_module",
    "fsopen",
    "init_module",
    "kexec_load",
    "keyctl",
    "mknodat a disk",
    "mknodat the memory",
    "mount a tmpfs",
    "mount /proc",
    "mount a cgroup",
    "mount a folder",
    "mount /proc/sys to write",
    "move_mount",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "quotactl",
    "reboot",
    "sethostname",
    "setns",
    "swapon",
    "syslog",
    "umount2 /proc/sys",
    "umount2 /tests",
    "unshare users",
    "unshare mounts",
    "unshare the network",
    "unshare processes",
    "userfaultfd",
)


def _calls(call: str) -> Attempt:
    refused = "Operation not permitted|Function not implemented"
    return tries(f"calls {call}", f"python3 /tmp/system_call.py '{call}'", f"^{call}: ({refused})")


def _denied(name: str, command: str) -> Attempt:
    return tries(name, f"{command} && echo it worked", rf"\A(?s:(?!.*it worked).*){_DENIED}")


def _socket(name: str, arguments: str) -> Attempt:
    return _denied(name, f"python3 -c 'from socket import *; socket({arguments})'")


_PRIVILEGES = (
    tries(
        "looks at its privileges",
        "grep -E 'Cap(Eff|Prm|Bnd)|NoNewPrivs|Seccomp:' /proc/self/status",
        r"CapPrm:\t0{13}4fb\nCapEff:\t0{13}4fb\nCapBnd:\t0{13}4fb\nNoNewPrivs:\t1\nSeccomp:\t2",
    ),
    tries(
        "becomes root by a set-uid program",
        "cp /bin/bash /tmp/b && chmod 4755 /tmp/b && python3 -c 'import os; os.setgroups([]); "
        'os.setgid(1000); os.setuid(1000); os.execv("/tmp/b", ["b", "-p", "-c", "id -u"])\'',
        r"^1000\n$",
    ),
    _denied("raises its priority", "python3 -c 'import os; os.nice(-5)'"),
    _socket("opens a raw socket", "AF_INET, SOCK_RAW, IPPROTO_ICMP"),
    _socket("sees all packets", "AF_PACKET, SOCK_RAW"),
)
_FILES = (
    tries("finds devices", "ls /dev | grep -E '^(sd|vd|nvme|dm|loop|mem|kmsg|kvm|fuse)'", "code 1"),
    _denied(
        "changes a kernel setting",
        "cat /proc/sys/kernel/core_pattern > /tmp/p; cat /tmp/p > /proc/sys/kernel/core_pattern",
    ),
    _denied("presses a system request", "echo h > /proc/sysrq-trigger"),
    _denied("names a release agent", "echo > /sys/fs/cgroup/memory/release_agent"),
    _denied("leaves its cgroup", "echo 1 > /sys/fs/cgroup/memory/cgroup.procs"),
    _denied("makes a cgroup", "cd /sys/fs/cgroup && { cd memory || true; } && mkdir escape"),
    _denied("writes to /sys", "echo 1 > /sys/kernel/profiling"),
    tries("reads the kernel's memory", "head -c 8 /proc/kcore | wc -c", r"\b0\n$"),
    tries("reads the kernel's keys", "head -c 8 /proc/keys | wc -c", r"\b0\n$"),
)

ATTACKS: dict[str, Attack] = {
    "kernel-calls": Attack((payload("system_call"), *map(_calls, _CALLS)), image=IMAGE),
    "kernel-privileges": Attack(_PRIVILEGES, image=IMAGE),
    "kernel-files": Attack(_FILES, image=IMAGE),
}
