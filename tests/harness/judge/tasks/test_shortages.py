"""What is slow is waited for, and what memory was too short for is told as that."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.judge.candidate_workers import address_space, call_seconds
from harness.judge.device.machine import Machine
from harness.judge.errors import CancelToken, TaskRefusedError, WorkerDied
from harness.judge.exchange import bursts, device_link
from harness.judge.exchange.case_pool import CasePool
from harness.judge.failures import Failure
from harness.judge.main import Judge
from harness.judge.stage_context import StageContext
from harness.judge.tasks.drawer import Drawer
from harness.judge.tasks.open_task import Tell
from harness.judge.tasks.opening import open_task
from harness.judge.tasks.task_workers import TaskText, TaskWorkers
from harness.targets import cpu
from harness.types import Candidate, Case, EvaluationRequest, Policy
from harness.wire.device_memory import DeviceMemoryError
from kevolve_mcp.executors import LocalExecutor
from kevolve_mcp.executors.base import ProgressEvent

TASK = (
    "import torch\n\n\ndef reference(x):\n    return torch.{0}(x)\n\n\ndef get_inputs():\n"
    "    return [torch.randn(64, 32)]\n"
)


def test_a_deadline_follows_the_reference() -> None:
    quick, timed = Case("quick"), Case("timed", baselines_us={"eager": 5e6, "compile": 4e6})
    assert call_seconds(quick, 24) == 10.0
    assert call_seconds(quick, 3, reference_s=1e-3) == 10.0
    assert call_seconds(quick, 24, reference_s=2.0) == 24 * 20 * 2.0
    assert call_seconds(timed, 3, reference_s=1e-3) == 3 * 20 * 4.0
    assert call_seconds(Case("short", baselines_us={"eager": 1e4}), 10) == 10 * 200 * 0.01


def test_a_large_case_gets_more_address_space() -> None:
    gib = 1 << 30
    assert address_space(8 * gib, 1 << 20, 18 * gib) == 8 * gib
    assert address_space(8 * gib, gib // 2, 18 * gib) == 12 * gib
    assert address_space(8 * gib, 4 * gib, 18 * gib) == 18 * gib
    assert address_space(8 * gib, 4 * gib, 4 * gib) == 8 * gib
    assert address_space(0, gib, 18 * gib) == 0  # a device's driver maps what it likes


def test_a_task_that_ran_out_of_memory_is_not_told_that_it_exited(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path)
    workers = TaskWorkers(machine, cpu, TaskText(TASK.format("sin"), "", "", 0))
    starved = WorkerDied(9, None, peak=3 << 30, starved=True)
    said = workers.refusal(starved, None)  # type: ignore[arg-type]  # its log is not asked for
    assert said.startswith("task.py, line 4: this machine ran out of memory")
    assert "it held 3.0 GiB" in said
    assert "GiB are free now" in said
    workers.close()
    machine.close()


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), DeviceMemoryError("cuMemCreate: out of memory")],
)
def test_who_holds_a_devices_memory_has_crashed(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    gib, ended = 1 << 30, list[str]()
    worker: Any = SimpleNamespace(
        kill=lambda: ended.append("killed"), wait_for_end=lambda: ended.append("gone")
    )

    def starved() -> None:
        raise error

    sizes = {"outputs": {"bytes": gib, "leaves": []}, "inputs": {"bytes": gib}, "held_bytes": gib}
    pool = CasePool("only", sizes)

    def guarded(held: int) -> None:
        ended.clear()
        monkeypatch.setattr(device_link, "free_bytes", lambda: gib + (held if ended else 0))
        context: Any = SimpleNamespace(task=SimpleNamespace(pools={"only": pool}))
        context.starvation_failure = lambda *how: StageContext.starvation_failure(context, *how)
        StageContext.guard(context, "case only", worker, starved)

    with pytest.raises(Failure, match=r"holds 100\.0 GiB") as caught:
        guarded(100 * gib)
    assert (caught.value.status, caught.value.signals[0].name, ended) == (
        "crashed",
        "out_of_memory",
        ["killed", "gone"],
    )
    with pytest.raises(type(error)):  # what checking takes: it is somebody else's
        guarded(8 * gib)


def test_want_of_a_devices_memory_refuses_the_task(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    judge, asked = Judge(tmp_path), list[str]()

    def starved(message: dict[str, Any], tell: Tell, token: CancelToken) -> None:
        asked.append(message["op"])
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 6.00 GiB.")

    monkeypatch.setattr(judge._handlers, "evaluate", starved)
    monkeypatch.setattr(device_link, "free_bytes", lambda: 100 << 30)
    with pytest.raises(TaskRefusedError, match=r"6\.00 GiB.* 100\.0 GiB are free"):
        judge._answer({"op": "evaluate"}, lambda *_: None, CancelToken())
    assert asked == ["evaluate"]
    for name in "ab":  # what else is open gives way first
        judge._tasks._open[name] = SimpleNamespace(close=lambda: None)  # type: ignore[assignment]
    with pytest.raises(TaskRefusedError):
        judge._answer({"op": "evaluate"}, lambda *_: None, CancelToken())
    assert (asked, judge._tasks._open) == (["evaluate"] * 3, {})
    judge._machine.close()


def test_tasks_that_are_held_open_give_way_where_memory_is_short(
    judge_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEVOLVE_TASK_GIB", "100000")  # more than is free anywhere

    async def body() -> list[str]:
        heard: list[ProgressEvent] = []
        async with LocalExecutor(None, judge_cache) as executor:
            tasks = [
                await executor.open_task(TASK.format(name), "", "cpu", timed=False)
                for name in ("sin", "cos")
            ]
            candidate = Candidate(
                "import torch\n\n\ndef kernel(x):\n    return torch.sin(x)\n", "cpp"
            )
            request = EvaluationRequest(candidate, "check", "verify", Policy(library_calls="allow"))
            found = await executor.evaluate(tasks[0], request, "cpu", progress=heard.append)
        assert found.status == "correct"
        return [event.stage for event in heard]

    assert "open" in asyncio.run(body())  # the first was closed when the second was opened


def large(**changed: Any) -> CasePool:
    """Inputs of 8 GiB, one number as output, parameters."""
    leaf = {"shape": [], "dtype": "float32"}
    sizes = {
        "outputs": {"bytes": 4096, "leaves": [leaf]}, "inputs": {"bytes": 8 << 30},
        "roundoff": 0.0, "second": "", "orders": [],
        "held_bytes": 4, "call_s": 0.0, "state": {"weight": [[8], "float32"]},
    }  # fmt: skip
    return CasePool("large", sizes | changed)


@pytest.mark.parametrize(("call_s", "calls"), [(0.0, 24), (0.1, 24), (2.0, 10), (60.0, 3)])
def test_fewer_outputs_are_held_where_a_call_takes_seconds(call_s: float, calls: int) -> None:
    assert bursts.retained_calls(large(call_s=call_s), 0.0) == calls


def test_fewer_outputs_are_held_where_each_keeps_a_large_allocation() -> None:
    pool = large(held_bytes=4 << 30)
    assert bursts.retained_calls(pool, 0.0) == 3
    assert bursts.checked_bytes(pool) > 2 * (8 << 30) + 3 * (4 << 30)


@pytest.mark.parametrize(("held_bytes", "calls"), [(4096, 24), (4 << 20, 16), (32 << 20, 3)])
def test_a_search_holds_fewer_large_outputs(held_bytes: int, calls: int) -> None:
    pool = large(held_bytes=held_bytes)
    assert bursts.retained_calls(pool, 0.0, bursts.SEARCH_HELD_BYTES) == calls
    assert bursts.retained_calls(pool, 0.0) >= calls


@pytest.mark.parametrize(("free", "families"), [(105, 4), (41, 1), (39, 0)])
def test_families_leave_room_for_what_has_to_be(
    monkeypatch: pytest.MonkeyPatch, free: int, families: int
) -> None:
    """24 GiB while a set is filled, and 8 for the set after the parameters changed."""
    drawer = Drawer(None, shared=True)  # type: ignore[arg-type]  # its worker is not asked
    monkeypatch.setattr(device_link, "free_bytes", lambda: free << 30)
    assert drawer.spare_families(large()) == families


@pytest.mark.parametrize(
    ("function", "families"),
    [("sin", ["dense", "scaled"]), ("lgamma(20 + x).exp().expm1", ["dense", "dense"])],
)
def test_one_plain_set_makes_room_for_one_of_a_family_that_is_borne(
    judge_cache: Path, monkeypatch: pytest.MonkeyPatch, function: str, families: list[str]
) -> None:
    """Two sets in any case: the second function overflows with larger inputs."""
    spare = iter([0, 1])
    monkeypatch.setattr(Drawer, "spare_families", lambda self, pool: next(spare))
    text = TASK.format(function).replace("expm1(x)", "expm1()")
    with contextlib.ExitStack() as opened:
        machine = Machine(judge_cache)
        opened.callback(machine.close)
        task, _ = open_task(
            machine, text, "task.py", lambda *_: None, None, timed=False, checked=False
        )
        opened.callback(task.close)
        pool = task.drawer.describe("default")
        opened.callback(pool.close)
        task.drawer.draw_checking(pool)
        assert [held.family for _, held in pool.checking] == families
