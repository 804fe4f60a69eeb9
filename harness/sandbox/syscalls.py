"""The Linux calls that Python lacks, through ctypes: namespaces, mounts, landlock, seccomp,
capabilities.

Numbers are from the kernel's syscall tables of x86_64 and aarch64
(include/uapi/asm-generic/unistd.h); structures from include/uapi/linux/{landlock,seccomp}.h.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

_libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
_MNT_DETACH = 2
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP = 1, 4, 22, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
MACHINE = platform.machine()
ARM = MACHINE == "aarch64"


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _call(number: int, *arguments: object) -> int:
    return int(_libc.syscall(ctypes.c_long(number), *arguments))


def unshare(flags: int) -> None:
    """Enter new namespaces. Raises OSError where the kernel or a policy forbids it."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Call mount(2). Raises OSError naming the target."""
    result = _libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(result, f"mount {target}")


def make_read_only(path: str) -> None:
    """Make a whole mount tree read-only, without set-uid: mount_setattr(2)."""
    # MOUNT_ATTR_RDONLY and _NOSUID have the same values
    attributes = struct.pack("<QQQQ", MS_RDONLY | MS_NOSUID, 0, 0, 0)
    at_recursive = 0x8000
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    _check(
        _call(442, -100, path.encode(), at_recursive, buffer, ctypes.c_size_t(len(attributes))),
        f"read-only {path}",
    )


def pivot_root(new: str, old: str) -> None:
    """Call pivot_root(2)."""
    _check(_call(41 if ARM else 155, new.encode(), old.encode()), "pivot_root")


def detach(path: str) -> None:
    """Unmount a tree once nobody uses it: umount2(MNT_DETACH)."""
    _check(_libc.umount2(path.encode(), _MNT_DETACH), f"unmount {path}")


def die_with_parent() -> None:
    """Have this process killed (SIGKILL) when the parent thread ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0), "prctl")


class SignalAction(ctypes.Structure):
    """struct sigaction of glibc on x86_64 and aarch64."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_char * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


def ignore_stopped_children() -> None:
    """Receive no SIGCHLD for children that stop or continue."""
    sigchld, no_stopped = 17, 1
    _check(
        _libc.sigaction(sigchld, ctypes.byref(SignalAction(flags=no_stopped)), None), "sigaction"
    )


def become_subreaper() -> None:
    """Adopt orphaned descendants as children of this process."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def set_dumpable(on: bool) -> None:
    """Set the dumpable flag. Off: other processes of the same user can neither trace this one nor
    read its memory through /proc."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, int(on), 0, 0, 0), "prctl")


def forbid_new_privileges() -> None:
    """Prevent programs executed from here on from gaining privileges."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def drop_capabilities() -> None:
    """Empty the bounding, permitted, effective and inheritable sets."""
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break
    header = ctypes.create_string_buffer(struct.pack("<Ii", 0x20080522, 0), 8)
    data = ctypes.create_string_buffer(24)
    _check(_call(91 if ARM else 126, header, data), "capset")


def set_filter(code: bytes, steps: int) -> None:
    """Install a seccomp program of `steps` instructions, each a struct sock_filter."""
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(
        struct.pack("<HxxxxxxQ", steps, ctypes.addressof(buffer)), 16
    )
    _check(_libc.prctl(_PR_SET_SECCOMP, 2, header, 0, 0), "seccomp")


def landlock_abi() -> int:
    """Return the kernel's landlock version, 0 without landlock."""
    return max(0, _call(444, None, ctypes.c_size_t(0), 1))


def restrict_paths(readable: list[str], writable: list[str]) -> None:
    """Restrict this process by landlock: it can open only these paths, to read and execute or for
    everything, and, where the kernel supports it (6.12), signal only processes under the same
    restriction. Needs forbid_new_privileges()."""
    abi = landlock_abi()
    if abi < 1:
        raise OSError(95, "landlock is not in this kernel")
    rights = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)) - 1
    read = 1 | 4 | 8  # execute, read file, read directory
    # scopes: abstract sockets, signals
    attributes = struct.pack("<Q", rights) if abi < 6 else struct.pack("<QQQ", rights, 0, 3)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    ruleset = _check(
        _call(444, buffer, ctypes.c_size_t(len(attributes)), 0), "landlock_create_ruleset"
    )
    try:
        for paths, allowed in ((readable, read), (writable, rights)):
            for path in paths:
                _allow_path(ruleset, path, allowed)
        _check(_call(446, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)


def _allow_path(ruleset: int, path: str, allowed: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(path):
            allowed &= 1 | 2 | 4 | (1 << 14) | (1 << 15)  # the rights that apply to files
        rule = ctypes.create_string_buffer(struct.pack("<Qi", allowed, fd), 12)
        if _call(445, ruleset, 1, rule, 0) < 0 and (number := ctypes.get_errno()) == 22:
            allowed &= 1 | 2 | 4
            rule = ctypes.create_string_buffer(struct.pack("<Qi", allowed, fd), 12)
            _check(_call(445, ruleset, 1, rule, 0), f"landlock_add_rule {path} ({number})")
    finally:
        os.close(fd)
