"""A device is tried out before it is trusted again; when it fails, nothing is said about the
candidate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.judge.device import health
from harness.judge.device.health import Health, Unwell
from harness.judge.device.machine import Machine
from harness.judge.errors import Cancelled
from harness.judge.processes.reaper import Reaper
from harness.judge.processes.spare_worker import SpareWorker
from harness.targets import cpu
from harness.targets.state import DeviceState


@pytest.fixture(scope="module")
def machine(judge_cache: Path) -> Iterator[Machine]:
    found = Machine(judge_cache)
    yield found
    found.close()


class Watched(Health):
    """Counts its checks; `problem` is what the next ones find."""

    checks = 0
    problem = ""

    def _answer(self, family: Any) -> str:
        self.checks += 1
        return self.problem


def family(*held: int | None) -> Any:
    """A device family whose unowned memory is, in turn, this; the last for ever."""
    left = list(held) or [None]
    return SimpleNamespace(
        NAME="fake",
        state=lambda _: DeviceState(0, held_bytes=left.pop(0) if len(left) > 1 else left[0]),
    )


def verdict(status: str) -> Any:
    return lambda: SimpleNamespace(status=status)


def watched() -> Watched:
    return Watched(SimpleNamespace(spare_worker=SpareWorker(), reaper=Reaper()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "checks"),
    [("correct", 0), ("incorrect", 0), ("crashed", 1), ("timed_out", 1), ("reward_hack", 1)],
)
def test_it_is_tried_out_after_a_crash(status: str, checks: int) -> None:
    found = watched()
    assert found.judge(family(), verdict(status)).status == status
    assert found.checks == checks


def test_and_every_so_often() -> None:
    found = watched()
    for _ in range(2 * health.EVERY):
        found.judge(family(), verdict("correct"))
    assert found.checks == 2


def test_a_device_that_fails_gives_no_verdict_until_it_passes() -> None:
    found, runs = watched(), []
    found.problem = "it gives 5 where 4 is right"
    with pytest.raises(Unwell, match="5 where 4") as caught:
        found.judge(family(), verdict("crashed"))
    assert "not judged" in caught.value.hint
    with pytest.raises(Unwell):
        found.judge(family(), lambda: runs.append(1))  # type: ignore[arg-type, return-value]
    assert runs == []
    found.problem = ""
    assert found.judge(family(), verdict("correct")).status == "correct"


def test_what_ends_without_a_verdict_leaves_it_suspect() -> None:
    def cancelled() -> Any:
        raise Cancelled

    found = watched()
    with pytest.raises(Cancelled):
        found.judge(family(), cancelled)
    found.judge(family(), verdict("correct"))
    found.judge(family(), verdict("correct"))
    assert found.checks == 1


def test_memory_that_nobody_owns_must_go_away(monkeypatch: pytest.MonkeyPatch) -> None:
    many = 3 * health.LEFT_BYTES
    assert watched().judge(family(100, many, many, 100), verdict("crashed")).status == "crashed"
    monkeypatch.setattr(health, "LEFT_SECONDS", 0.2)
    with pytest.raises(Unwell, match=r"768 MiB .* belong to no process"):
        watched().judge(family(0, many), verdict("crashed"))
    # not known before: nothing to compare
    assert watched().judge(family(None, many), verdict("crashed")).status == "crashed"


def test_a_fresh_worker_computes_what_is_known(machine: Machine) -> None:
    found = Health(machine)
    assert found.judge(cpu, verdict("crashed")).status == "crashed"


def test_a_worker_that_cannot_compute_is_told_with_the_reason(machine: Machine) -> None:
    """Here by asking for a device that torch does not have."""
    missing: Any = SimpleNamespace(**{**vars(cpu), "TORCH_DEVICE": "xpu:7"})
    with pytest.raises(Unwell, match="no longer works"):
        Health(machine).judge(missing, verdict("crashed"))


def test_the_answer_itself_counts(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health.probe, "expected_values", lambda: (1, 2))
    with pytest.raises(Unwell, match=r"where \(1, 2\) is right"):
        Health(machine).judge(cpu, verdict("crashed"))


def test_the_servers_that_fork_have_one_thread(machine: Machine) -> None:
    """A fork beside a thread may take over a lock that nobody opens again."""
    machine.task_worker(cpu, "", compiles=True).close()
    servers = machine.servers._servers
    assert any("tasks" in key[0] for key in servers)
    for server in servers.values():
        server.start()
    assert {name: server.tasks for name, server in servers.items()} == dict.fromkeys(servers, 1)


@pytest.mark.parametrize(("first", "there", "runs"), [
    ("crashed", True, 2), ("build_failed", True, 2), ("timed_out", True, 2), ("incorrect", True, 1),
    ("correct", True, 1), ("crashed", False, 1),
])  # fmt: skip
def test_nobody_is_blamed_for_what_was_left_of_a_predecessor(
    first: str, there: bool, runs: int
) -> None:
    """Its processes and its memory count until the kernel has cleared it away."""
    closed: list[int] = []
    reaper, verdicts = Reaper(), [first, "correct"]
    sock, pid = SimpleNamespace(close=lambda: None), 7 if there else 0
    reaper.add(
        SimpleNamespace(
            pid=pid,
            sock=sock,
            kill=lambda: None,
            release_device_memory=lambda: None,
            close=lambda: closed.append(len(verdicts)),
        )
    )  # type: ignore[arg-type]
    found = Watched(SimpleNamespace(spare_worker=SpareWorker(), reaper=reaper))  # type: ignore[arg-type]
    status = found.judge(family(), lambda: SimpleNamespace(status=verdicts.pop(0))).status  # type: ignore[arg-type, return-value]
    assert (status, 2 - len(verdicts)) == ("correct" if runs == 2 else first, runs)
    assert closed == ([1] if runs == 2 or first == "crashed" else [])  # before the second run
