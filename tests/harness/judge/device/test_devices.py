"""GPUs as the management library lists them, what disturbs a device, and the lock around it. The
library is a stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.judge.device import locks
from harness.judge.device.gpus import list_devices
from harness.judge.device.locks import DeviceLock, LockBroken, shared_folder
from harness.judge.device.machine import Machine
from harness.judge.errors import Cancelled, CancelToken
from harness.targets import cpu, cuda, nvml
from harness.targets.nvml import Gpu
from harness.targets.state import DeviceState, disturbances, is_foreign, waited_ns
from harness.types import Ceilings, to_json
from tests.fake_nvml import FakeNvml, gpu

# ---- which there are -----------------------------------------------------------------------------


def test_every_gpu_is_listed_with_what_names_it(fake_nvml: FakeNvml) -> None:
    fake_nvml.show(gpu(0), gpu(1, name="Fake 100", arch="8,0"))
    first, second = nvml.gpus()
    assert first == Gpu(0, "GPU-000-fake", "Fake 9000", "sm_90", 80 << 30, 7)
    assert (second.index, second.arch, second.name) == (1, "sm_80", "Fake 100")
    assert nvml.driver() == "1.2.3"


def test_without_the_library_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEVOLVE_NVML", "/nowhere/libnvidia-ml.so.1")
    nvml._library.cache_clear()
    assert nvml.gpus() == ()
    assert nvml.state("GPU-1") == nvml.GpuState()
    nvml._library.cache_clear()


@pytest.mark.parametrize(
    ("setting", "left"),
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        ("GPU-b", [1]),
        ("", []),
        ("-1", []),
        ("0,9,1", [0]),
        ("1,1,0", [1]),
        ("GPU-", []),
        ("MIG-GPU-a/1/0", []),
    ],
)
def test_the_choice_of_the_user_counts(setting: str | None, left: list[int]) -> None:
    found = [Gpu(i, f"GPU-{name}", "Fake", "sm_90", 1) for i, name in enumerate("abc")]
    assert [g.index for g in nvml.visible(found, setting)] == left


# ---- who is on them ------------------------------------------------------------------------------


@contextmanager
def running(*command: str) -> Iterator[int]:
    process = subprocess.Popen(command)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_the_memory_in_use_is_read_again_and_again(fake_nvml: FakeNvml) -> None:
    fake_nvml.show(gpu(0))
    read = nvml.used_bytes_reader(nvml.gpus()[0].uuid)
    assert read is not None
    assert read() == nvml.state(nvml.gpus()[0].uuid).used_bytes
    assert nvml.used_bytes_reader("GPU-unknown") is None


def test_programs_of_others_are_told_from_evaluators(fake_nvml: FakeNvml) -> None:
    ours = (sys.executable, "-c", "import time  # harness.workers\ntime.sleep(60)")
    with running("sleep", "60") as stranger, running(*ours) as worker:
        deadline = time.monotonic() + 10
        while (
            b"harness" not in Path(f"/proc/{worker}/cmdline").read_bytes()
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        fake_nvml.show(gpu(0, f"{stranger}:300 {worker}:200 {os.getpid()}:100 4194305:5"), gpu(1))
        first, second = list_devices()
        assert first.users == (f"process {stranger} (sleep)",)
        assert (second.users, first.used_bytes) == ((), 1000 << 20)
        assert nvml.state(first.uuid).held_bytes == 395 << 20
        assert "used by process" in str(first)
        assert "free" in str(second)
    assert not is_foreign(stranger)  # gone


def test_what_the_driver_does_not_tell_is_not_invented(fake_nvml: FakeNvml) -> None:
    fake_nvml.show(gpu(0, "1", reasons=0x1 | 0x4 | 0x40))
    found = nvml.state("GPU-000-fake")
    assert found.processes == {1: None}
    assert found.held_bytes is None
    assert (found.sm_mhz, found.temperature) == (1980, 41)
    assert found.throttled == ("the power cap (software)", "temperature (hardware)")
    assert nvml.state("GPU-unknown") == nvml.GpuState()


def test_many_processes_fit(fake_nvml: FakeNvml) -> None:
    fake_nvml.show(gpu(0, " ".join(f"{p}:1" for p in range(100, 170))))
    assert len(nvml.state("GPU-000-fake").processes) == 70


SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (DeviceState(0), DeviceState(SECOND), ""),
        (DeviceState(0, {1: 5}), DeviceState(SECOND, {1: 5 + SECOND // 100}), ""),
        (
            DeviceState(0, {1: 0}),
            DeviceState(SECOND, {1: SECOND // 5}),
            "other programs held the core for 20 %",
        ),
        (DeviceState(0), DeviceState(SECOND, {1: SECOND}), ""),  # not read before: nothing is known
        # one step of the counter
        (DeviceState(0), DeviceState(SECOND // 100, stolen_ns=10_000_000), ""),
        (
            DeviceState(0),
            DeviceState(SECOND, stolen_ns=SECOND // 4),
            "the hypervisor held the core for 25 %",
        ),
        (DeviceState(0, foreign=("process 5 (a)",)), DeviceState(SECOND), "process 5 (a)"),
        (DeviceState(0), DeviceState(SECOND, foreign=("process 6 (b)",)), "process 6 (b)"),
        (DeviceState(0), DeviceState(SECOND, throttled=("heat",)), "slowed down by heat"),
        (DeviceState(0, clock_mhz=1980), DeviceState(SECOND, clock_mhz=1950), ""),
        (
            DeviceState(0, clock_mhz=1980),
            DeviceState(SECOND, clock_mhz=1500),
            "from 1980 to 1500 MHz",
        ),
    ],
)
def test_what_disturbs_is_decided_by_the_state_alone(
    before: DeviceState, after: DeviceState, said: str
) -> None:
    found = disturbances(before, after)
    assert len(found) == bool(said)
    assert said.replace(" %", "%") in " ".join(d.text for d in found)


def test_a_process_that_has_no_core_is_seen_waiting() -> None:
    """Two spinning processes on one core: each waits for the other, whatever else this machine
    does."""
    core = str(cpu.timing_cpu())
    spin = ("taskset", "-c", core, sys.executable, "-c", "while True: pass")
    with running(*spin) as one, running(*spin):
        time.sleep(0.5)
        before, start = waited_ns(one), time.monotonic_ns()
        time.sleep(1.0)
        after, end = waited_ns(one), time.monotonic_ns()
    if before is None or after is None:
        pytest.skip("this kernel does not tell")
    found = disturbances(DeviceState(start, {one: before}), DeviceState(end, {one: after}))
    assert [d.signal for d in found] == ["foreign_process"]
    assert waited_ns(one) is None


def test_waiting_for_threads_of_its_own_is_no_disturbance() -> None:
    """Who could disturb a block of its own would choose which of its processes count."""
    core = str(max(os.sched_getaffinity(0)))
    spin = "import hashlib, threading\ndata = bytes(1 << 24)\ndef work():\n    while True:\n"
    spin += "        hashlib.sha256(data)\nthreading.Thread(target=work).start()\nwork()"
    with running("taskset", "-c", core, sys.executable, "-c", spin) as one:
        time.sleep(0.5)
        figures = []
        for _ in range(2):
            raw = int(Path(f"/proc/{one}/schedstat").read_text().split()[1])
            figures.append((raw, waited_ns(one)))
            time.sleep(1.0)
    (raw_before, before), (raw_after, after) = figures
    if before is None or after is None:
        pytest.skip("this kernel does not tell")
    assert after - before < raw_after - raw_before - 100_000_000


# ---- the lock ------------------------------------------------------------------------------------


def test_one_holder_at_a_time_between_processes(tmp_path: Path) -> None:
    lock = DeviceLock("cuda:GPU-1", str(tmp_path))
    code = (
        "import sys; from harness.judge.device.locks import DeviceLock\n"
        f"with DeviceLock('cuda:GPU-1', {str(tmp_path)!r}).hold():\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    assert lock.is_taken
    assert not DeviceLock("cuda:GPU-2", str(tmp_path)).is_taken
    taken = threading.Event()

    def take() -> None:
        with lock.hold():
            taken.set()

    thread = threading.Thread(target=take)
    thread.start()
    assert not taken.wait(0.2)
    process.kill()  # the kernel releases it
    process.wait()
    assert taken.wait(10)
    thread.join()
    process.stdin.close()  # type: ignore[union-attr]
    process.stdout.close()
    assert not lock.is_taken


def test_every_user_can_open_it_whatever_the_umask(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    before = os.umask(0o077)
    try:
        with DeviceLock("d", str(tmp_path)).hold():
            files = list(tmp_path.iterdir())
            assert {file.stat().st_mode & 0o777 for file in files} == {0o666}
    finally:
        os.umask(before)
    for file in files:
        file.chmod(0o444)  # another user's, who was killed before the chmod above
    with DeviceLock("d", str(tmp_path)).hold():
        assert DeviceLock("d", str(tmp_path)).is_taken


@pytest.mark.skipif(os.geteuid() != 0, reason="changing the user takes root")
def test_another_users_file_in_a_sticky_folder_is_locked_all_the_same(tmp_path: Path) -> None:
    """As under fs.protected_regular, which forbids O_CREAT on it."""
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o1777)  # up to the system's own folder for such files
    with DeviceLock("d", str(tmp_path)).hold():
        pass
    pid = os.fork()
    if pid == 0:
        os.setresuid(65534, 65534, 65534)
        try:
            with DeviceLock("d", str(tmp_path)).hold():
                os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_file_that_was_cleaned_away_while_held_is_not_shared_by_two(tmp_path: Path) -> None:
    first, second = DeviceLock("d", str(tmp_path)), DeviceLock("d", str(tmp_path))
    with first.hold():
        os.unlink(first.path)
        # nobody can see the first holder any more; but the third meets the second
        with second.hold():
            assert DeviceLock("d", str(tmp_path)).is_taken
    assert not second.is_taken


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_something_else_in_its_place_is_refused_with_the_fix(tmp_path: Path, kind: str) -> None:
    lock = DeviceLock("d", str(tmp_path))
    if kind == "link":
        os.symlink(tmp_path / "elsewhere", lock.path)
    elif kind == "pipe":
        os.mkfifo(lock.path)
    else:
        os.mkdir(lock.path)
    with pytest.raises(LockBroken, match="remove it"), lock.hold():
        pass
    assert not lock.is_taken
    assert not (tmp_path / "elsewhere").exists()


def test_the_folder_is_one_that_everybody_may_write_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert os.stat(shared_folder()).st_mode & 0o002
    assert not DeviceLock("d").path.startswith(str(tmp_path))


# ---- several at once -----------------------------------------------------------------------------


def test_whoever_may_time_at_once_has_a_core_of_its_own() -> None:
    assert {cpu.timing_cpu(number) for number in range(len(cpu.CORES))} == set(cpu.CORES)
    assert cpu.timing_cpu(len(cpu.CORES)) == cpu.timing_cpu()


def test_workers_are_shown_their_gpu_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA_VISIBLE_DEVICES=1 of the user names nothing in a sandbox that shows one device file."""
    monkeypatch.setattr(cuda, "_gpu", lambda: gpu_of("GPU-b"))
    assert cuda.environment() == {"CUDA_VISIBLE_DEVICES": "GPU-b"}
    assert cuda.timing_cpu() == cpu.timing_cpu(2)
    monkeypatch.setattr(cuda, "_gpu", lambda: None)
    assert cuda.environment() == {}


def gpu_of(uuid: str) -> Gpu:
    return Gpu(1, uuid, "Fake", "sm_90", 1)


def test_ceilings_are_measured_with_the_device_alone_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "FOLDERS", (str(tmp_path),))
    machine, cancelled = Machine(tmp_path), CancelToken()
    cancelled.cancel()
    measured = to_json(Ceilings({"memory": 2e10}, {}, {}, {"memory": 1 << 62}))
    try:
        with DeviceLock(cpu.device_id()).hold():
            with pytest.raises(Cancelled):
                machine.report(ceilings=True, cancel=cancelled)
            # by somebody else, not long ago: nothing is measured
            cpu.ceilings(tmp_path, [sys.executable, "-c", f"print({json.dumps(measured)!r})"])
            found = machine.report(ceilings=True, cancel=cancelled).ceilings
    finally:
        machine.close()
        cancelled.close()
    assert found is not None
    assert found.bandwidth == {"memory": 2e10}
