"""What a candidate can reach from inside, at each level."""

from __future__ import annotations

import asyncio
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.judge.errors import Refused, WorkerDied, WorkerFailed
from harness.judge.processes import bubblewrap
from harness.judge.processes.fork_server_process import ForkServer
from harness.judge.processes.freezing import descendants, turns
from harness.judge.processes.worker import Worker
from harness.sandbox import call_filter, syscalls
from harness.sandbox.confine import Confinement
from harness.wire import memory_files
from kevolve_mcp.errors import TaskRefused
from kevolve_mcp.executors import LocalExecutor
from tests.harness.conftest import Bench, load

LEVELS = ("namespaces", "bubblewrap", "landlock", "process")
READABLE = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[3] / "harness"))


class Servers:
    """A fork server for most levels, and for bubblewrap one for each scratch folder."""

    def __init__(self) -> None:
        self._started: dict[str, ForkServer] = {}

    def at(self, level: str, scratch: Path) -> ForkServer:
        if level != "bubblewrap":
            return self._started.setdefault("", ForkServer([]))
        if bubblewrap.program() is None:
            pytest.skip(bubblewrap.MISSING)
        inside = ForkServer([], wrapper=bubblewrap.wrapper(READABLE, [str(scratch)], ()))
        return self._started.setdefault(str(scratch), inside)

    def close(self) -> None:
        for server in self._started.values():
            server.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Servers]:
    found = Servers()
    yield found
    found.close()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("reference")
    return path


def start(servers: Servers, level: str, scratch: Path, **rules: Any) -> Worker:
    try:
        return servers.at(level, scratch).worker(
            "candidate",
            Confinement(level, READABLE, **rules),
            "" if level == "namespaces" else str(scratch),
        )
    except (Refused, WorkerDied) as reason:
        pytest.skip(f"this machine cannot give {level}: {reason}")


def attempt(server: Servers, level: str, scratch: Path, lines: str, **rules: Any) -> str | None:
    """Run lines inside; None if they went through, else what they raised."""
    try:
        load(start(server, level, scratch, **rules), f"{lines}\nclass ModelNew: pass\n")
        return None
    except WorkerFailed as error:
        return str(error)


@pytest.mark.parametrize("level", LEVELS[:3])
def test_files_of_the_user_cannot_be_read(
    server: Servers, tmp_path: Path, secret: Path, level: str
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert attempt(server, level, scratch, f"open({str(secret)!r}).read()")
    assert attempt(server, level, scratch, "open('/etc/shadow').read()")


@pytest.mark.parametrize("level", LEVELS[:3])
def test_the_system_is_read_only(server: Servers, tmp_path: Path, level: str) -> None:
    target = Path(os.__file__).with_name("kevolve_was_here.py")
    assert attempt(server, level, tmp_path, f"open({str(target)!r}, 'w').write('x')")
    assert not target.exists()


@pytest.mark.parametrize("level", LEVELS[:3])
def test_the_most_that_it_held_cannot_be_forgotten(
    server: Servers, tmp_path: Path, level: str
) -> None:
    assert attempt(server, level, tmp_path, "open('/proc/self/clear_refs', 'w').write('5')")


def test_the_driver_of_a_device_may_name_its_threads() -> None:
    program = f"""
import os, threading
from harness.sandbox import confine
rules = confine.Confinement("namespaces", {READABLE!r}, devices=("/dev/tty",))
try:
    confine.enter(rules, os.open("/dev/null", os.O_WRONLY), [])
except OSError as error:
    print(f"refused: {{error}}", flush=True)
    os._exit(0)
open(f"/proc/self/task/{{threading.get_native_id()}}/comm", "w").write("driver")
print("named", flush=True)
os._exit(0)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30
    )
    if ran.stdout.startswith("refused"):
        pytest.skip(f"this machine cannot give namespaces: {ran.stdout}")
    assert ran.stdout == "named\n", ran.stderr


@pytest.mark.parametrize("level", LEVELS[:3])
def test_there_is_no_network(server: Servers, tmp_path: Path, level: str) -> None:
    assert attempt(
        server, level, tmp_path, "import socket\nsocket.create_connection(('127.0.0.1', 1))"
    )
    assert "not permitted" in (
        attempt(server, level, tmp_path, "import socket\nsocket.socket()") or ""
    )


@pytest.mark.parametrize("level", LEVELS)
def test_a_scratch_folder_is_writable_and_the_environment_is_scrubbed(
    server: Servers, tmp_path: Path, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEVOLVE_TEST_SECRET", "1")
    assert attempt(server, level, tmp_path, "open('scratch.txt', 'w').write('x')") is None
    assert (
        attempt(
            server, level, tmp_path, "import os\nassert 'KEVOLVE_TEST_SECRET' not in os.environ"
        )
        is None
    )


@pytest.mark.parametrize("level", LEVELS[:2])
def test_other_processes_and_the_users_folders_are_invisible_in_namespaces(
    server: Servers, tmp_path: Path, level: str
) -> None:
    lines = f"""
import os
assert not os.path.exists({str(Path.home())!r}) or any(p.startswith({str(Path.home())!r}) for p in {READABLE})
assert not os.path.exists({str(Path(__file__))!r})
assert not os.path.exists('/proc/{os.getpid()}')
assert len([p for p in os.listdir('/proc') if p.isdigit()]) <= 5
"""  # noqa: E501
    assert attempt(server, level, tmp_path, lines) is None


def test_nothing_can_be_traced_or_mounted(server: Servers, tmp_path: Path) -> None:
    for call in (
        "ptrace(16, 1, 0, 0)",
        "mount(b'none', b'/tmp', b'tmpfs', 0, 0)",
        "unshare(0x10000000)",
    ):
        lines = (
            "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
            f"assert libc.{call} == 0, ctypes.get_errno()"
        )
        assert attempt(server, "namespaces", tmp_path, lines)


@pytest.mark.parametrize("level", LEVELS[:3])
def test_no_shared_memory_outlives_it(server: Servers, tmp_path: Path, level: str) -> None:
    lines = (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "assert libc.{} >= 0, ctypes.get_errno()"
    )
    for call in (
        "shmget(0x6b65, 4096, 0o1600)",
        "semget(0x6b65, 1, 0o1600)",
        "msgget(0x6b65, 0o1600)",
    ):
        assert "AssertionError: 1" in (attempt(server, level, tmp_path, lines.format(call)) or "")


CALLS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
went = []

def refused(name, number, *arguments):
    ctypes.set_errno(0)
    libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) for a in arguments))
    if ctypes.get_errno() != 1:
        went.append((name, ctypes.get_errno()))
"""


def refusals(calls: dict[str, tuple[tuple[int, int], tuple[int, ...]]]) -> str:
    """Lines that raise unless each call is refused; arguments that an unconfined process would get
    other errors for."""
    arm = platform.machine() == "aarch64"
    lines = [
        f"refused({name!r}, {n[arm]}, *{arguments})"
        for name, (n, arguments) in calls.items()
        if n[arm] >= 0
    ]
    return "\n".join([CALLS, *lines, "assert not went, went"])


@pytest.mark.parametrize("level", LEVELS[:3])
def test_no_mark_is_left_on_a_file(server: Servers, tmp_path: Path, level: str) -> None:
    marks = {
        name: (numbers, (-1, 0, 0, 0, 0)) for name, numbers in call_filter._DENIED_MARKS.items()
    }
    assert attempt(server, level, tmp_path, refusals(marks)) is None
    for line in (
        "os.setxattr(1, 'user.x', b'x')",
        "os.chmod(1, 0)",
        "os.utime(1)",
        "os.chown('.', 0, 0)",
        "os.chmod('.', 0)",
    ):
        assert "not permitted" in (attempt(server, level, tmp_path, f"import os\n{line}") or ""), (
            line
        )
    # FS_IOC_SETFLAGS
    cloned = "import fcntl, struct\nfcntl.ioctl(1, 0x40086602, struct.pack('<q', 0x40))"
    assert "not permitted" in (attempt(server, level, tmp_path, cloned) or "")


@pytest.mark.parametrize("level", LEVELS[:3])
def test_it_neither_asks_nor_says_what_the_kernel_keeps_in_memory(
    server: Servers, tmp_path: Path, level: str
) -> None:
    denied = {**call_filter._DENIED_MEMORY, **call_filter._DENIED_AMONG_OTHERS}
    lines = refusals({name: (numbers, (-1, 0, 0, 0, 0)) for name, numbers in denied.items()})
    assert attempt(server, level, tmp_path, lines) is None
    lines = """
import ctypes, mmap, os
for advice in (20, 21, 22, 23, 25):
    try:
        mmap.mmap(-1, 1 << 16).madvise(advice)
    except PermissionError:
        continue
    raise RuntimeError(advice)
mmap.mmap(-1, 1 << 16).madvise(mmap.MADV_DONTNEED)
mmap.mmap(-1, 1 << 22).madvise(mmap.MADV_HUGEPAGE)
file = os.open(os.__file__, os.O_RDONLY)
assert os.preadv(file, [bytearray(1)], 0) == 1
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(1)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 1)
preadv2 = lambda flags: libc.syscall(*map(ctypes.c_long, (PREADV2, file, ctypes.addressof(vector), 1, 0, 0, flags)))
assert preadv2(0) == 1
assert preadv2(os.RWF_NOWAIT) == -1 and ctypes.get_errno() == 1
""".replace("PREADV2", str(call_filter._PREADV2[syscalls.ARM]))  # noqa: E501
    assert attempt(server, level, tmp_path, lines) is None


@pytest.mark.parametrize("level", LEVELS[:3])
def test_no_counter_of_the_machine_carries_a_word(
    server: Servers, tmp_path: Path, level: str
) -> None:
    counters = {
        n: (numbers, (-1, 0, 0, 0, 0)) for n, numbers in call_filter._DENIED_COUNTERS.items()
    }
    counters["clone with a descriptor"] = ((call_filter._CLONE,) * 2, (17 | 0x1000, 0, 0, 0, 0))
    counters["statx"] = (call_filter._STATX, (-1, 0, 0, 0x4FFF, 0))
    for name, numbers in call_filter._MEMORY_FILES.items():
        counters[name] = (numbers, (0, 0, 0, 0, 0))
    assert attempt(server, level, tmp_path, refusals(counters)) is None
    lines = """
import fcntl, gc, os, socket
from harness.workers import candidate
refused = []
# the only one: it cannot create any
one = next(h for h in gc.get_objects() if isinstance(h, candidate.CandidateHost))._sock
for name, request in {
    "cookie": lambda: one.getsockopt(socket.SOL_SOCKET, 57, 8),
    "cookie of the network": lambda: one.getsockopt(socket.SOL_SOCKET, 71, 8),
    "descriptor of the other side": lambda: one.getsockopt(socket.SOL_SOCKET, 77, 4),
    "descriptors that come along": lambda: one.setsockopt(socket.SOL_SOCKET, 76, 1),
    "number of a namespace": lambda: fcntl.ioctl(one, 0x8008B70D, bytes(8)),
}.items():
    try:
        request()
    except PermissionError:
        refused.append(name)
assert len(refused) == 5, refused
assert one.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_SEQPACKET
assert os.stat(".").st_ino
"""
    assert attempt(server, level, tmp_path, lines) is None


def test_no_count_of_the_whole_machine_is_shown(server: Servers, tmp_path: Path) -> None:
    """Except to what drives a device."""
    lines = """
import glob, mmap, os
shown = {name for name in ("vmstat", "stat", "meminfo", "loadavg", "interrupts", "sys") if os.path.exists(f"/proc/{name}")}
assert not shown, shown
assert not os.path.exists("/sys/devices/system/clocksource")
assert not os.path.exists("/sys/kernel")
assert not glob.glob("/sys/devices/system/cpu/**/time", recursive=True)
try:
    mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x2000)  # MAP_LOCKED
except OSError:
    pass
else:
    raise RuntimeError("locked")
"""  # noqa: E501
    own = """
assert os.listdir("/proc/self/fd") and open("/proc/self/maps").read()
assert os.listdir("/sys/devices/system/cpu/cpu0/topology")
"""
    assert attempt(server, "namespaces", tmp_path, lines + own) is None
    assert not Confinement("namespaces", devices=("/dev/dri",)).bare


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_compilers_see_nothing_of_processes(server: Servers, tmp_path: Path, level: str) -> None:
    """Their messages can quote any file that they read, such as the clock in /proc/self/sched."""
    lines = """
import os
for path in ("/proc/self/sched", "/proc/uptime", "/sys/devices/system/cpu/online"):
    try:
        open(path).read()
    except OSError:
        pass
    else:
        raise RuntimeError(path)
assert os.uname().machine == "x86_64" or open("/proc/cpuinfo").read()
"""
    assert attempt(server, level, tmp_path, lines, tools=True) is None


def test_the_processor_is_known_where_it_is_not_shown(tmp_path: Path) -> None:
    """Torch reads /proc/cpuinfo, once."""
    import torch

    fork_server = ForkServer(["torch"])
    worker = fork_server.worker("candidate", Confinement("namespaces", READABLE))
    here = torch.backends.cpu.get_cpu_capability()
    try:
        load(
            worker,
            f"import torch\nassert torch.backends.cpu.get_cpu_capability() == {here!r}\n"
            "class ModelNew: pass\n",
        )
    finally:
        fork_server.close()


@pytest.mark.parametrize("level", LEVELS[:3])
def test_nothing_signals_it_later(server: Servers, tmp_path: Path, level: str) -> None:
    alarms = {
        name: (numbers, (-1, 0, 0, 0, 0)) for name, numbers in call_filter._DENIED_ALARMS.items()
    }
    assert attempt(server, level, tmp_path, refusals(alarms)) is None
    lines = """
import ctypes, fcntl, os, signal, struct
refused = []
libc = ctypes.CDLL(None, use_errno=True)
reads, writes = os.pipe()
flags = fcntl.fcntl(reads, fcntl.F_GETFL)
fcntl.fcntl(reads, fcntl.F_SETFL, flags | os.O_NONBLOCK)
fcntl.fcntl(reads, fcntl.F_DUPFD, 3)
for name, request in {
    "owner": lambda: fcntl.fcntl(reads, fcntl.F_SETOWN, os.getpid()),
    "signal": lambda: fcntl.fcntl(reads, 10, signal.SIGCONT),
    "asynchronous": lambda: fcntl.fcntl(reads, fcntl.F_SETFL, flags | os.O_ASYNC),
    "lease": lambda: fcntl.fcntl(reads, fcntl.F_SETLEASE, fcntl.F_RDLCK),
    "notice": lambda: fcntl.fcntl(os.open(".", os.O_RDONLY), fcntl.F_NOTIFY, 1),
    "hint": lambda: fcntl.fcntl(reads, 1036, struct.pack("<Q", 2)),
    "by ioctl": lambda: fcntl.ioctl(reads, 0x5452, struct.pack("<i", 1)),
    "owner by ioctl": lambda: fcntl.ioctl(reads, 0x8901, struct.pack("<i", os.getpid())),
}.items():
    try:
        request()
    except PermissionError:
        refused.append(name)
assert libc.prctl(1, signal.SIGCONT, 0, 0, 0) == -1 and ctypes.get_errno() == 1
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.syscall(CLONE, signal.SIGCONT, 0, 0, 0, 0) == -1 and ctypes.get_errno() == 1
assert len(refused) == 8, refused
""".replace("CLONE", str(call_filter._CLONE))
    assert attempt(server, level, tmp_path, lines) is None


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other numbers are of x86_64")
def test_calls_by_other_numbers_are_refused(server: Servers, tmp_path: Path) -> None:
    """Those of 32 bits (int 0x80) and of x32."""
    lines = """
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(0x40000000 | 39) == -1 and ctypes.get_errno() == 1
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
child = os.fork()
if child == 0:
    os._exit(0 if call() == -1 else 1)
status = os.waitpid(child, 0)[1]
assert status == 0 or os.WIFSIGNALED(status), status  # without emulation it is a fault
"""
    assert attempt(server, "namespaces", tmp_path, lines) is None


@pytest.mark.parametrize("level", LEVELS[:3])
def test_one_that_may_start_no_process_starts_threads_alone(
    server: Servers, tmp_path: Path, level: str
) -> None:
    lines = """
import ctypes, os, subprocess, sys, threading
done = []
thread = threading.Thread(target=done.append, args=(1,))
thread.start()
thread.join()
assert done == [1]
libc = ctypes.CDLL(None, use_errno=True)
for name, start in {
    "fork": os.fork,
    "spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "subprocess": lambda: subprocess.run(["/bin/true"]),
    "exec": lambda: os.execv("/bin/true", ["true"]),
    "exec of a file": lambda: os.execve(os.open("/bin/true", os.O_RDONLY), ["true"], {}),
}.items():
    try:
        start()
    except PermissionError:
        continue
    raise RuntimeError(name)
if FORK >= 0:
    assert libc.syscall(FORK) == -1 and ctypes.get_errno() == 1
""".replace("FORK", str(-1 if syscalls.ARM else 57))
    assert attempt(server, level, tmp_path, lines, forks=False) is None


@pytest.mark.parametrize("level", LEVELS[:3])
def test_what_runs_compilers_keeps_the_tools(server: Servers, tmp_path: Path, level: str) -> None:
    lines = (
        "import os, signal\nopen('x', 'w').close()\nos.chmod('x', 0o700)\nos.utime('x')\n"
        "signal.setitimer(signal.ITIMER_REAL, 1000)"
    )
    assert attempt(server, level, tmp_path, lines, tools=True) is None


@pytest.mark.parametrize("level", LEVELS[1:3])
def test_other_processes_of_its_user_cannot_be_slowed(
    server: Servers, tmp_path: Path, level: str
) -> None:
    """Where it can name them: the fork server, the baseline's worker, the next candidate's."""
    lines = """
import os, resource
parent, went = os.getppid(), []
for name, action in {
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, parent, 5),
    "scheduler": lambda: os.sched_setscheduler(parent, os.SCHED_IDLE, os.sched_param(0)),
    "limit": lambda: resource.prlimit(parent, resource.RLIMIT_CPU, (1, 1)),
    "cores": lambda: os.sched_setaffinity(parent, os.sched_getaffinity(0)),
}.items():
    try:
        action()
        went.append(name)
    except PermissionError:
        pass
resource.setrlimit(resource.RLIMIT_STACK, resource.getrlimit(resource.RLIMIT_STACK))
os.sched_setaffinity(0, os.sched_getaffinity(0))
assert not went, went
"""
    assert attempt(server, level, tmp_path, lines) is None


def test_a_fork_bomb_is_bounded_and_leaves_nothing(server: Servers, tmp_path: Path) -> None:
    lines = (
        "import os, time\nfor _ in range(10000):\n    if os.fork() == 0:\n        time.sleep(100)"
    )
    assert "temporarily unavailable" in (attempt(server, "namespaces", tmp_path, lines) or "")
    assert (
        attempt(
            server,
            "namespaces",
            tmp_path,
            "import os\nif os.fork() == 0:\n    os._exit(0)\nos.wait()",
        )
        is None
    )


def test_who_starts_all_threads_there_may_be_leaves_others_theirs(
    server: Servers, tmp_path: Path
) -> None:
    """Nobody's limit is another one's, whatever user the judge is."""
    lines = """
import threading
started = []
while len(started) < {most}:
    one = threading.Thread(target=threading.Event().wait, daemon=True)
    try:
        one.start()
    except RuntimeError:
        break
    started.append(one)
assert {count}, len(started)
"""
    greedy = start(server, "namespaces", tmp_path)
    try:
        all_of_them = lines.format(most=2000, count="8 < len(started) < 2000")
        source = memory_files.from_bytes(
            "source", f"{all_of_them}\nclass ModelNew: pass\n".encode()
        )
        greedy.ask("load", [source], seconds=20)
        os.close(source)
        some = lines.format(most=8, count="len(started) == 8")
        assert attempt(server, "namespaces", tmp_path, some) is None
    finally:
        greedy.close()


# which all levels but the last refuse
OWN_SESSION = """
import contextlib, os, sys
if os.fork() == 0:
    with contextlib.suppress(PermissionError):
        os.setsid()
"""


@pytest.mark.parametrize("level", LEVELS)
def test_killing_a_worker_ends_what_it_started(server: Servers, tmp_path: Path, level: str) -> None:
    worker = start(server, level, tmp_path)
    marker = f"kevolve-{level}-{os.getpid()}"
    child = (
        "os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(200)', "
        f"{marker!r}])"
    )
    lines = f"{OWN_SESSION}    {child}\nclass ModelNew: pass\n"
    source = memory_files.from_bytes("source", lines.encode())
    worker.ask("load", [source], seconds=20)
    os.close(source)
    worker.close()
    lines_found = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists()]
    assert not any(marker.encode() in line for line in lines_found)


def test_a_pinned_worker_cannot_leave_its_core(server: Servers, tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    worker = server.at("namespaces", Path()).worker(
        "candidate", Confinement("namespaces", READABLE, cpus=(core,)), ""
    )
    lines = (
        f"import os\nassert os.sched_getaffinity(0) == {{{core}}}\n"
        "os.sched_setaffinity(0, range(os.cpu_count()))"
    )
    with pytest.raises(WorkerFailed, match="not permitted"):
        load(worker, lines)


@pytest.mark.parametrize("level", LEVELS)
def test_files_of_one_worker_are_gone_for_the_next(
    server: Servers, tmp_path: Path, level: str
) -> None:
    assert (
        attempt(
            server,
            level,
            tmp_path,
            "import os\nopen('memo', 'w').write('x')\nassert os.path.exists('memo')",
        )
        is None
    )
    assert attempt(server, level, tmp_path, "import os\nassert not os.path.exists('memo')") is None
    assert not list(tmp_path.iterdir())


def stopped(pids: list[int]) -> bool:
    """Whether all three are, as soon as they have had the processor once more: before, a signal to
    stop only waits for them."""
    states: list[str] = []
    until = time.monotonic() + 5
    while time.monotonic() < until and states != ["T"] * 3:
        states = [
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in pids
        ]
    return states == ["T"] * 3


@pytest.mark.parametrize("level", LEVELS)
def test_a_frozen_worker_and_what_it_started_stand_still(
    server: Servers, tmp_path: Path, level: str
) -> None:
    worker = start(server, level, tmp_path)
    busy = (
        "import os\nfor _ in range(2):\n    if os.fork() == 0:\n        while True:\n"
        "            pass\nclass ModelNew: pass\n"
    )
    source = memory_files.from_bytes("source", busy.encode())
    try:
        worker.ask("load", [source], seconds=20)
        with turns(worker.root) as turn:
            for _ in range(2):
                assert stopped(descendants(worker.root))
                with turn(worker.root):
                    worker.ask("own_kernels", seconds=20, mode="count")
        worker.ask("own_kernels", seconds=20, mode="count")  # it goes on
    finally:
        os.close(source)
        worker.close()


HOSTILE = """
import os, signal, socket
import torch

def refused(action):
    try:
        action()
    except OSError as error:
        return
    raise RuntimeError("went through")

refused(lambda: os.stat(AT_HOME))
refused(lambda: open(SECRET).read())
refused(lambda: os.kill(JUDGE, signal.SIGTERM))
refused(lambda: socket.create_connection(("127.0.0.1", 1), 1))
refused(lambda: open(os.path.join(FOLDER, "new"), "w"))
import neighbour
open(os.path.join(os.environ["TMPDIR"], "scratch"), "w").write("x")


def reference(x):
    return x.sin() + neighbour.SHIFT


def get_inputs():
    return [torch.randn(8, 32)]
"""


def _is_judge(cmdline: Path) -> bool:
    try:
        ours = f"PPid:\t{os.getpid()}\n" in cmdline.with_name("status").read_text()
        return ours and b"harness.judge.main" in cmdline.read_bytes()
    except OSError:
        return False


def test_a_task_sees_its_own_folder_and_reaches_nothing_else(
    bench: Bench, tmp_path: Path, secret: Path
) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    for place in (*folder.parents[:3], folder):
        place.chmod(0o755)
    (folder / "neighbour.py").write_text("SHIFT = 1.0\n")
    readable = [
        *READABLE,
        *(os.path.realpath(p) for p in READABLE),
        sys.executable,
        os.path.realpath(sys.executable),
    ]
    at_home = [
        str(p) for p in Path.home().iterdir() if not any(r.startswith(str(p)) for r in readable)
    ]
    (judge,) = [p.parent.name for p in Path("/proc").glob("[0-9]*/cmdline") if _is_judge(p)]
    facts = {
        "AT_HOME": (at_home or ["/etc/shadow"])[0],
        "SECRET": str(secret),
        "FOLDER": str(folder),
        "JUDGE": int(judge),
    }
    path = folder / "hostile.py"
    path.write_text("\n".join(f"{k} = {v!r}" for k, v in facts.items()) + HOSTILE)
    task = bench.run(bench.executor.open_task(path.read_text(), str(path), "cpu", timed=False))
    assert task.cases
    assert not (folder / "new").exists()


BOMBS = {
    "one process": "held = [torch.ones(1 << 26) for _ in range(10_000)]",
    "many processes": (
        "import os, time\nfor _ in range(64):\n    if os.fork() == 0:\n"
        "        held = bytearray(1 << 30)\n        held[::4096] = bytes([1]) * (1 << 18)\n"
        "        time.sleep(60)\ntime.sleep(60)"
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_task_that_takes_all_memory_is_refused_and_the_next_one_opens(
    judge_cache: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    good = (
        "import torch\n\n\ndef reference(x):\n    return x.sin()\n\n\ndef get_inputs():\n"
        "    return [torch.randn(8, 32)]\n"
    )
    monkeypatch.setenv("KEVOLVE_TASK_GIB", "2")

    async def body() -> None:
        async with LocalExecutor(None, judge_cache) as executor:
            with pytest.raises(TaskRefused, match="smaller shapes"):
                await executor.open_task(f"{good}\n{BOMBS[name]}\n", "", "cpu", timed=False)
            assert (await executor.open_task(good, "", "cpu", timed=False)).cases

    asyncio.run(body())
