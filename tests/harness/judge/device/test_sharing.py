"""What several judges do on one device: one times alone, the others share it between its rounds."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.judge.device.locks import DeviceLock, sharing
from harness.judge.errors import Cancelled, CancelToken
from harness.judge.failures import Failure
from harness.targets import cpu

ROOT = Path(__file__).resolve().parents[4]
OTHER = """
import sys
sys.path.insert(0, {root!r})
from harness.judge.device.locks import DeviceLock
with getattr(DeviceLock("test", {folder!r}), {how!r})():
    print("in", flush=True)
    sys.stdin.readline()
"""


class Other:
    """Another process that wants the device."""

    def __init__(self, folder: Path, how: str) -> None:
        code = OTHER.format(root=str(ROOT), folder=str(folder), how=how)
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def enters(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "in\n"

    def leave(self) -> None:
        self._process.communicate("\n", timeout=30)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def lock(tmp_path: Path) -> DeviceLock:
    return DeviceLock("test", str(tmp_path))


def waits(lock: DeviceLock, how: str) -> bool:
    """Whether it cannot be had now."""
    token = CancelToken()
    token.cancel()
    try:
        with getattr(lock, how)(token):
            return False
    except Cancelled:
        return True
    finally:
        token.close()


def test_many_share_what_nobody_times(lock: DeviceLock, tmp_path: Path) -> None:
    other = Other(tmp_path, "share")
    other.enters()
    assert not waits(lock, "share")
    assert waits(lock, "hold")
    assert not lock.is_taken
    other.leave()
    assert not waits(lock, "hold")


def test_who_times_is_alone(lock: DeviceLock, tmp_path: Path) -> None:
    other = Other(tmp_path, "hold")
    other.enters()
    assert waits(lock, "share")
    assert waits(lock, "hold")
    assert lock.is_taken
    other.leave()
    assert not waits(lock, "share")


def test_who_wants_to_time_is_let_in_before_later_sharers(lock: DeviceLock, tmp_path: Path) -> None:
    first = Other(tmp_path, "share")
    first.enters()
    timing = Other(tmp_path, "hold")
    until = time.monotonic() + 30
    while not waits(lock, "share"):  # until it stands in the door
        assert time.monotonic() < until
    first.leave()
    timing.enters()
    timing.leave()
    assert not waits(lock, "share")


def test_a_killed_holder_leaves_the_device_free(lock: DeviceLock, tmp_path: Path) -> None:
    other = Other(tmp_path, "hold")
    other.enters()
    other.kill()
    assert not waits(lock, "hold")


def test_who_has_it_shares_it_with_itself(lock: DeviceLock) -> None:
    entered = []
    with lock.share(), lock.share():
        entered.append("twice")
    with lock.hold(), lock.share():
        thread = threading.Thread(target=lambda: entered.append(waits(lock, "share")))
        thread.start()
        thread.join()
    assert entered == ["twice", False]
    assert not waits(lock, "hold")


def test_sharing_does_not_turn_into_timing(lock: DeviceLock) -> None:
    with lock.share(), pytest.raises(RuntimeError, match="forever"), lock.hold():
        pass


def test_workers_of_a_host_share_nothing() -> None:
    assert sharing(cpu) is None


@pytest.mark.parametrize("how", ["hold", "share"])
def test_a_failure_leaves_the_device_as_it_is(tmp_path: Path, how: str) -> None:
    """contextlib sets the traceback of what passes through: no exception may be frozen."""
    lock = DeviceLock("test", str(tmp_path))
    with pytest.raises(Failure) as caught, getattr(lock, how)():
        raise Failure("crashed", "an input was written", ())
    assert caught.value.message == "an input was written"
    assert not lock.is_taken
