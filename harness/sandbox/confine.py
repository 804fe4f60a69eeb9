"""A process confines itself before it loads a candidate or a task.

`enter` is called in a newly forked, single-threaded child of a fork server. It returns only in the
process that may run the file. The processes around it (one outside the PID namespace, one as its
init) wait, report, and end with it. Levels, strongest first: `namespaces` (own root built from
read-only binds, PID, network and IPC namespaces, landlock, seccomp), `bubblewrap` (as `landlock`,
forked in a sandbox), `landlock` (path rules and seccomp), `process` (limits and a scrubbed
environment only).
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import resource
import tempfile
from dataclasses import dataclass

from . import call_filter, syscalls, watcher

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/sys", "/nix")
ETC = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/OpenCL",
)
_CPUINFO = "/proc/cpuinfo"
_PROCESSORS = "/sys/devices/system/cpu"
# of it, the folders with counters of the whole machine
_COUNTED = ("cpuidle", "cpufreq", "cpu[0-9]*/cpuidle", "cpu[0-9]*/cpufreq")
_DEVICES = ("null", "zero", "full", "random", "urandom")


@dataclass(frozen=True)
class Confinement:
    """The rules for one process. level: the isolation level. readable: paths beyond the system's
    (interpreter, libraries). memory_bytes: address space beyond what the process has now, and
    resident_bytes: what it and its descendants may hold together; 0 for no limit. processes: the
    most processes and threads. scratch_bytes: size of the private /tmp. cpus: the processors that
    it and its descendants are pinned to; () for any. user: the id that a root process takes in
    namespaces; it differs for each worker, since the process limit is counted per user. tools: it
    runs compilers, which set modes and times of files; a candidate must not, since it could leave
    messages in them for its later processes. forks: it may start processes."""

    level: str
    readable: tuple[str, ...] = ()
    memory_bytes: int = 8 << 30
    resident_bytes: int = 0
    processes: int = 128
    scratch_bytes: int = 512 << 20
    file_bytes: int = 1 << 30
    devices: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()
    user: int = 65534  # nobody
    tools: bool = False
    forks: bool = True

    @property
    def bare(self) -> bool:
        """Whether it sees only the parts of /proc and /sys that CPU kernels need. Without a device
        no driver needs more, and machine-wide counters could carry messages to a later process."""
        return not self.devices

    @property
    def compiles_only(self) -> bool:
        """Whether it runs compilers and drives no device."""
        return self.tools and self.bare


def enter(rules: Confinement, status_fd: int, keep: list[int]) -> None:
    """Confine this process. `status_fd` receives "P pid" (as seen outside) and, at the end, "S
    wait-status peak-bytes".

    keep: the only descriptors that stay open besides 0, 1, 2. Raises OSError where the level is not
    available.
    """
    syscalls.die_with_parent()
    os.setsid()
    # if the machine runs out of memory, the kernel ends these processes before their judge
    with contextlib.suppress(OSError):
        _put("/proc/self/oom_score_adj", "1000")
    root, held, processor = os.geteuid() == 0, _address_space(), _processor(rules)
    if rules.level == "namespaces":
        _new_namespaces(root, rules.user)
        _build_root(rules)
        _stay_outside(status_fd)  # returns in the init of the new PID namespace
        _mount_proc(bare=rules.bare)
        os.chdir("/new")
        syscalls.pivot_root(".", ".")
        syscalls.detach(".")
        os.chdir("/tmp")
    else:
        syscalls.become_subreaper()
    syscalls.set_dumpable(False)
    _fork_worker(rules, status_fd, namespace=rules.level == "namespaces")
    syscalls.die_with_parent()
    if rules.compiles_only and rules.level == "namespaces":
        _hide_processes(processor)
    _close_all_but(keep)
    os.environ.update(TMPDIR=os.getcwd(), HOME=os.getcwd())
    tempfile.tempdir = None  # forget the folder found before
    _restrict(rules, held, drop_user=root and rules.level == "namespaces")


def _new_namespaces(root: bool, user: int) -> None:
    flags = (
        syscalls.CLONE_NEWNS
        | syscalls.CLONE_NEWNET
        | syscalls.CLONE_NEWIPC
        | syscalls.CLONE_NEWPID
        | syscalls.CLONE_NEWUTS
    )
    if root:  # real root needs no user namespace, and later becomes a plain user permanently
        syscalls.unshare(flags)
    else:
        uid, gid = os.geteuid(), os.getegid()
        syscalls.unshare(flags | syscalls.CLONE_NEWUSER)
        _put("/proc/self/setgroups", "deny")
        _put("/proc/self/uid_map", f"{user} {uid} 1")
        _put("/proc/self/gid_map", f"{user} {gid} 1")
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)


def _build_root(rules: Confinement) -> None:
    """Build a new root at /new in a private tmpfs, filled with read-only binds. The old root is
    temporarily reachable at /old."""
    plain = syscalls.MS_NOSUID | syscalls.MS_NODEV
    syscalls.mount("tmpfs", "/tmp", "tmpfs", plain, "mode=0755,size=16m")
    os.mkdir("/tmp/old")
    os.mkdir("/tmp/new")
    syscalls.pivot_root("/tmp", "/tmp/old")
    os.chdir("/")
    syscalls.mount("tmpfs", "/new", "tmpfs", plain, "mode=0755,size=16m")
    os.makedirs("/new/dev/shm")
    os.mkdir("/new/tmp")
    # before the binds: an interpreter may be installed below /tmp
    for scratch in ("/new/tmp", "/new/dev/shm"):
        syscalls.mount("tmpfs", scratch, "tmpfs", plain, f"mode=1777,size={rules.scratch_bytes}")
    for path in without_nested((*_system(rules), *ETC, *rules.readable)):
        _bind(path)
    if rules.bare and not rules.tools:
        for folder in _COUNTED:
            for path in glob.glob(f"/new{_PROCESSORS}/{folder}"):
                if not os.path.islink(path):
                    syscalls.mount("tmpfs", path, "tmpfs", plain | syscalls.MS_RDONLY, "size=4k")
    for name in (*(f"/dev/{d}" for d in _DEVICES), *rules.devices):
        _bind(name, read_only=False)
    os.makedirs("/new/proc", exist_ok=True)
    os.makedirs("/new/etc", exist_ok=True)
    _put("/new/etc/passwd", f"kernel:x:{rules.user}:{rules.user}::/tmp:/bin/sh\n")


def _processor(rules: Confinement) -> str:
    """Return the text in which a compiler looks for the processor, "" where it needs none."""
    if not rules.compiles_only or os.uname().machine == "x86_64":
        return ""
    with open(_CPUINFO) as file:
        return file.read()


def _hide_processes(text: str) -> None:
    """Take /proc away from this process, but not from the one that watches it. text: of the file
    that describes the processor, which stays."""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.detach("/proc")
    if text:
        _put(_CPUINFO, text)


def _system(rules: Confinement) -> list[str]:
    """Return what is readable of the system. A compiler can quote in its messages any file that it
    can read, even the clock in /proc/self/sched: it sees nothing of /proc and /sys, but on Arm the
    file in which it looks for the processor."""
    if rules.compiles_only:
        return [path for path in SYSTEM if path != "/sys"]
    return [_PROCESSORS if path == "/sys" and rules.bare else path for path in SYSTEM]


def _mount_proc(*, bare: bool) -> None:
    """Mount /proc. bare: with processes only, where the kernel supports it (5.8)."""
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
    if bare:
        try:
            return syscalls.mount("proc", "/new/proc", "proc", flags, "subset=pid")
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
    return syscalls.mount("proc", "/new/proc", "proc", flags)


def _bind(path: str, *, read_only: bool = True) -> None:
    old, new = f"/old{path}", f"/new{path}"
    if os.path.islink(old):
        if not os.path.lexists(new):
            os.makedirs(os.path.dirname(new), exist_ok=True)
            os.symlink(os.readlink(old), new)
        return
    if not os.path.exists(old):
        return
    if os.path.isdir(old):
        os.makedirs(new, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(new), exist_ok=True)
        _put(new, "")
    syscalls.mount(old, new, flags=syscalls.MS_BIND | syscalls.MS_REC)
    if read_only:
        syscalls.make_read_only(new)


def without_nested(paths: tuple[str, ...]) -> list[str]:
    """Return each path once, without those below another path of the list."""
    outermost: list[str] = []
    for path in sorted(set(paths), key=len):
        if (
            path.startswith("/")
            and path != "/"
            and not any(path.startswith(f"{k}/") for k in outermost)
        ):
            outermost.append(path)
    return outermost


def _stay_outside(status_fd: int) -> None:
    """Fork the namespace's init. The parent reports its outer PID and ends with it."""
    child = os.fork()
    if child == 0:
        syscalls.die_with_parent()
        return
    os.write(status_fd, f"P {child}\n".encode())
    _close_all_but([])
    os.waitpid(child, 0)
    os._exit(0)


def _fork_worker(rules: Confinement, status_fd: int, *, namespace: bool) -> None:
    """Fork the worker and return in it; the parent watches it and never returns."""
    worker = os.fork()
    if worker == 0:
        return
    if not namespace:
        # report the worker: if it is killed, this process adopts its orphans
        os.write(status_fd, f"P {worker}\n".encode())
    _close_all_but([status_fd])
    watcher.watch(worker, status_fd, resident_bytes=rules.resident_bytes, namespace=namespace)


def _restrict(rules: Confinement, held: int, *, drop_user: bool) -> None:
    """held: bytes of address space that the process has already."""
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, rules.file_bytes),
        (resource.RLIMIT_NOFILE, 1024),
        (resource.RLIMIT_NPROC, rules.processes),
    ):
        with contextlib.suppress(ValueError, OSError):  # a lower hard limit is already set
            resource.setrlimit(kind, (value, value))
    if rules.cpus:
        os.sched_setaffinity(0, rules.cpus)
    if rules.bare:  # mmap can lock as well; a device's driver may need it
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    if rules.memory_bytes:
        limit = held + rules.memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    if drop_user:
        os.setgroups([])
        os.setresgid(rules.user, rules.user, rules.user)
        os.setresuid(rules.user, rules.user, rules.user)
    syscalls.forbid_new_privileges()
    syscalls.die_with_parent()  # again: the change of user has cleared it
    # libraries read /proc/self and the watcher counts its files; no other process can look
    syscalls.set_dumpable(True)
    if rules.level != "process":
        with contextlib.suppress(OSError):
            syscalls.drop_capabilities()
        _landlock(rules)
        call_filter.install(
            pinned=bool(rules.cpus),
            alone=rules.level == "namespaces",
            tools=rules.tools,
            forks=rules.forks,
            memory_files=rules.tools or not rules.bare,
        )


def _landlock(rules: Confinement) -> None:
    # CUDA's cuInit names its threads through /proc/PID/task/TID/comm and fails where it cannot
    # (error 304); a path rule cannot tell that file from clear_refs beside it
    driver = [*rules.devices, "/proc"] if rules.devices else []
    # everything under the new root may be read; a kernel without landlock still has the binds
    if rules.level == "namespaces":
        if syscalls.landlock_abi():
            syscalls.restrict_paths(["/"], ["/tmp", "/dev/shm", "/dev/null", *driver])
    else:
        # a path rule cannot tell /proc/self from the rest of /proc
        system = [*_system(rules), _CPUINFO] if rules.compiles_only else [*SYSTEM, "/proc"]
        readable = [*system, *ETC, *rules.readable, "/dev", "/etc/passwd"]
        syscalls.restrict_paths(readable, [os.getcwd(), "/dev/null", *driver])


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _close_all_but(keep: list[int]) -> None:
    low = 3
    for fd in sorted(k for k in keep if k >= 3):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, 65536)


def _put(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
