"""The filter of system calls (seccomp) of a confined process, written as a program for the kernel.

Numbers are from the kernel's syscall tables of x86_64 and aarch64
(include/uapi/asm-generic/unistd.h; -1 for a call that aarch64 does not have); structures from
include/uapi/linux/{seccomp,filter}.h.
"""

from __future__ import annotations

import struct

from . import syscalls
from .syscalls import ARM, MACHINE

# The calls that timed calls need are allowed first: a candidate's filter is longer than a task's,
# and without this equal kernels differed by 5 %.
_TIMED = {"recvmsg": (47, 212), "sendmsg": (46, 211), "read": (0, 63)}
# name: (x86_64, aarch64)
_DENIED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "perf_event_open": (298, 241), "bpf": (321, 280), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268), "userfaultfd": (323, 282),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "open_by_handle_at": (304, 265), "kcmp": (312, 272), "pidfd_getfd": (438, 438),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "acct": (163, 89), "quotactl": (179, 60), "syslog": (103, 116),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsmount": (432, 432),
    "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "memfd_secret": (447, 447),
    "name_to_handle_at": (303, 264), "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195),
    "semget": (64, 190), "msgget": (68, 186),
}  # fmt: skip
# Metadata of files, which outlive the process that sets them and are not covered by write seals;
# and locks and watches on files that all processes see, which live as long as a descriptor, even
# one in transit through a socket.
_DENIED_MARKS = {
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "getxattr": (191, 8),
    "lgetxattr": (192, 9), "fgetxattr": (193, 10), "listxattr": (194, 11), "llistxattr": (195, 12),
    "flistxattr": (196, 13), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "setxattrat": (463, 463), "getxattrat": (464, 464),
    "listxattrat": (465, 465), "removexattrat": (466, 466), "file_getattr": (468, 468),
    "file_setattr": (469, 469), "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53),
    "fchmodat2": (452, 452), "chown": (92, -1), "fchown": (93, 55), "lchown": (94, -1),
    "fchownat": (260, 54), "utime": (132, -1), "utimes": (235, -1), "futimesat": (261, -1),
    "utimensat": (280, 88), "flock": (73, 32), "inotify_init": (253, -1),
    "inotify_init1": (294, 26), "inotify_add_watch": (254, 27), "fanotify_init": (300, 262),
}  # fmt: skip
# The page cache of files that all processes read, and counters of locked pages, which outlive the
# process as well.
_DENIED_MEMORY = {
    "fadvise64": (221, 223), "cachestat": (451, 451), "mincore": (27, 232),
    "process_madvise": (440, 440), "mlock": (149, 228), "munlock": (150, 229),
    "mlockall": (151, 230), "munlockall": (152, 231), "mlock2": (325, 284),
}  # fmt: skip
# Counters of the whole machine that one process changes and a later one can read: of processes (in
# the number of a pidfd), of mounts, of sessions.
_DENIED_COUNTERS = {
    "pidfd_open": (434, 434), "statmount": (457, 457), "listmount": (458, 458),
    "setsid": (112, 157),
}  # fmt: skip
# Sources of later signals to a process: SIGCONT, for example, resumes a stopped one.
_DENIED_ALARMS = {
    "timer_create": (222, 107), "setitimer": (38, 103), "alarm": (37, -1),
    "timerfd_create": (283, 85), "mq_open": (240, 180), "mq_notify": (244, 184),
    "io_setup": (206, 0), "io_submit": (209, 2),
}  # fmt: skip
# name: (its numbers, index of an argument, refused values). Refused are the owner and the signal of
# a descriptor that announces events, hints and flags of a file, the signal at the end of a parent,
# hiding from the watcher that counts its files, counters of sockets, and pidfds.
# F_GETLK, _SETLK, _SETLKW, _SETOWN, _SETSIG, _SETOWN_EX, _OFD_GETLK, _SETLK, _SETLKW, _SETLEASE,
# _NOTIFY, _SET(_FILE)_RW_HINT
_DENIED_REQUESTS = {
    "fcntl": (
        (72, 25),
        1,
        (5, 6, 7, 8, 10, 15, 36, 37, 38, 1024, 1026, 1036, 1038),
    ),
    # FIOASYNC, FIOSETOWN, SIOCSPGRP,
    "ioctl": ((16, 29), 1, (0x5452, 0x8901, 0x8902, 0x40086602, 0x40046602, 0x401C5820)),
    # FS_IOC_SETFLAGS, FS_IOC32_SETFLAGS, FS_IOC_FSSETXATTR
    # PR_SET_PDEATHSIG, _DUMPABLE, PR_SCHED_CORE (who may run beside it on the core)
    "prctl": ((157, 167), 0, (1, 4, 62)),
    # MADV_COLD, _PAGEOUT, _POPULATE_READ, _POPULATE_WRITE, _COLLAPSE
    "madvise": ((28, 233), 2, (20, 21, 22, 23, 25)),
    "getsockopt": ((55, 209), 2, (57, 71, 77)),  # SO_COOKIE, _NETNS_COOKIE, _PEERPIDFD
    "setsockopt": ((54, 208), 2, (76,)),  # SO_PASSPIDFD
}
# A process's own memory files, and sockets, in which those that the judge sends can be in transit:
# unmapped or there, they cannot be attributed to an owner. Only device drivers and compilers may
# create them. And moving pages to where others lay: an output in memory that was used before counts
# as written in its call.
_MEMORY_FILES = {
    "memfd_create": (319, 279), "mremap": (25, 216), "socket": (41, 198), "socketpair": (53, 199),
}  # fmt: skip
_STATX, _STATX_MNT_ID_UNIQUE = (332, 291), 0x4000
_IOCTLS_OF_NAMESPACES = 0xB700
_F_SETFL, _O_ASYNC = 4, 0o20000
_PREADV2 = (327, 286)  # its flags can tell whether a page is in memory, or drop it
_PROCESS_STARTS = {"fork": (57, -1), "vfork": (58, -1), "execve": (59, 221), "execveat": (322, 281)}
_CLONE_PIDFD, _CLONE_THREAD, _X32 = 0x1000, 0x10000, 0x40000000
# Calls that affect other processes of the same user, which a worker outside a PID namespace can
# name; also, only the judge decides how a candidate is scheduled.
_DENIED_AMONG_OTHERS = {
    "setpriority": (141, 140), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "ioprio_set": (251, 30),
}  # fmt: skip
# the first argument names the process, 0 the caller itself
_OWN_ONLY = {"prlimit64": (302, 261), "sched_setaffinity": (203, 122)}
_CLONE, _CLONE3, _SOCKET = (220, 435, 198) if ARM else (56, 435, 41)
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_Step = tuple[int, int, int, int]
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_OF, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # their offsets in struct seccomp_data
_ALLOW, _REFUSE, _MISSING = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38


def install(
    *,
    pinned: bool = False,
    alone: bool = True,
    tools: bool = False,
    forks: bool = True,
    memory_files: bool = True,
) -> None:
    """Refuse (EPERM) what no kernel needs: tracing, mounting, namespaces, keys, BPF, perf, memory
    and queues that outlive the process, sockets other than AF_UNIX, calls of other architectures.
    pinned: refuse also to change its set of processors. alone: it cannot name any other process.
    tools: allow it, as compilers need, to change metadata and cached pages of files and its own
    scheduling, to schedule signals to itself, and to read counters of the machine. forks: allow it
    to start processes, not only threads. memory_files: allow it to create them, to move pages,
    and to create sockets."""
    if MACHINE not in _AUDIT_ARCH:
        raise OSError(95, f"no seccomp filter for {MACHINE}")
    program = _program(
        pinned=pinned, alone=alone, tools=tools, forks=forks, memory_files=memory_files
    )
    code = b"".join(struct.pack("<HBBI", *step) for step in program)
    syscalls.set_filter(code, len(program))


def _program(
    *, pinned: bool, alone: bool, tools: bool, forks: bool, memory_files: bool
) -> list[_Step]:
    program: list[_Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _AUDIT_ARCH[MACHINE]),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),  # the x32 ABI: the same calls by other numbers
        (_RETURN, 0, 0, _REFUSE),
    ]
    for numbers in _TIMED.values():
        program += [(_EQUAL, 0, 1, numbers[ARM]), (_RETURN, 0, 0, _ALLOW)]
    if not tools:
        for name, (numbers, argument, values) in _DENIED_REQUESTS.items():
            steps = _MORE_STEPS[name]() if name in _MORE_STEPS else []
            program += _unless(
                numbers[ARM],
                argument,
                [*steps, *(step for value in values for step in _refuse(value))],
            )
        program += _unless(_PREADV2[ARM], 5, [(_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _REFUSE)])
        program += _unless(
            _STATX[ARM], 3, [(_ANY_OF, 0, 1, _STATX_MNT_ID_UNIQUE), (_RETURN, 0, 0, _REFUSE)]
        )
    denied = [
        *_DENIED.values(),
        *([] if alone and tools else _DENIED_AMONG_OTHERS.values()),
        *([_OWN_ONLY["sched_setaffinity"]] if pinned else []),
        *([] if memory_files else _MEMORY_FILES.values()),
    ]
    for calls in () if tools else (_DENIED_MARKS, _DENIED_MEMORY, _DENIED_COUNTERS, _DENIED_ALARMS):
        denied += calls.values()
    denied += [] if forks else _PROCESS_STARTS.values()
    for numbers in denied:
        program += _refuse(numbers[ARM]) if numbers[ARM] >= 0 else []
    for numbers in [] if alone else _OWN_ONLY.values():
        program += _unless(numbers[ARM], 0, [(_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _REFUSE)])
    # without clone3 glibc uses clone, whose flags the filter can read
    program += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _MISSING)]
    program += _unless(_CLONE, 0, _clone_steps(tools=tools, forks=forks))
    program += _unless(_SOCKET, 0, [(_EQUAL, 1, 0, 1), (_RETURN, 0, 0, _REFUSE)])
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _unless(number: int, argument: int, steps: list[_Step]) -> list[_Step]:
    """Allow a call unless `steps`, which see the lower half of one argument, refuse it."""
    body = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), *steps, (_RETURN, 0, 0, _ALLOW)]
    return [(_EQUAL, 0, len(body), number), *body]


def _refuse(value: int) -> list[_Step]:
    return [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _REFUSE)]


def _refuse_async_flags() -> list[_Step]:
    """Refuse fcntl calls that set the flags by which a descriptor sends signals."""
    steps = [
        (_LOAD, 0, 0, _ARGUMENTS + 16),
        (_ANY_OF, 0, 1, _O_ASYNC),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return [(_EQUAL, 0, len(steps), _F_SETFL), *steps]


def _refuse_namespace_ioctls() -> list[_Step]:
    """Refuse ioctl calls that ask namespaces for their identifiers, which are never reused."""
    return [
        (_AND, 0, 0, 0xFF00),
        *_refuse(_IOCTLS_OF_NAMESPACES),
        (_LOAD, 0, 0, _ARGUMENTS + 8),
    ]


_MORE_STEPS = {"fcntl": _refuse_async_flags, "ioctl": _refuse_namespace_ioctls}


def _clone_steps(*, tools: bool, forks: bool) -> list[_Step]:
    steps = [(_ANY_OF, 0, 1, 0x7E020000), (_RETURN, 0, 0, _REFUSE)]  # namespaces
    if not forks:
        steps += [(_ANY_OF, 1, 0, _CLONE_THREAD), (_RETURN, 0, 0, _REFUSE)]
    if not tools:  # a pidfd of the child, and an exit signal other than SIGCHLD
        steps += [(_ANY_OF, 0, 1, _CLONE_PIDFD), (_RETURN, 0, 0, _REFUSE)]
        steps += [
            (_AND, 0, 0, 0xFF),
            (_EQUAL, 2, 0, 0),
            (_EQUAL, 1, 0, 17),
            (_RETURN, 0, 0, _REFUSE),
        ]
    return steps
