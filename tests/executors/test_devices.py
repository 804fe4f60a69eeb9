"""Which judge a call goes to where there are several GPUs: the choice, and the executor that makes
it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.judge.device import gpus
from harness.types import (
    Candidate,
    Case,
    Device,
    Environment,
    Evaluation,
    EvaluationRequest,
    Purpose,
    Task,
    to_json,
)
from kevolve_mcp.executors import LocalExecutor, local
from kevolve_mcp.executors.devices import Seat, alike, choose, in_flight
from tests.fake_nvml import FakeNvml, gpu


def device(
    index: int,
    name: str = "Fake",
    arch: str = "sm_90",
    users: tuple[str, ...] = (),
    *,
    measuring: bool = False,
) -> Device:
    return Device(index, f"GPU-{index}", name, arch, 1 << 30, 0, users, measuring)


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("cuda", [0, 2]),
        ("cuda:sm_90", [0, 2]),
        ("CUDA:sm_80 ", [1]),
        ("cuda:sm_100", []),
        ("cpu", []),
        ("hip:gfx942", []),
    ],
)
def test_a_target_means_gpus_of_one_model(target: str, wanted: list[int]) -> None:
    there = (device(0), device(1, "Older", "sm_80"), device(2), device(3, "Other"))
    assert [d.index for d in alike(there, target)] == wanted


@pytest.mark.parametrize(
    ("seats", "index"),
    [
        ((Seat(device(0)), Seat(device(1))), 0),
        ((Seat(device(0), True, 1, True), Seat(device(1))), 1),
        ((Seat(device(0)), Seat(device(1), True, 0, True)), 1),
        ((Seat(device(0)), Seat(device(1), True)), 1),
        ((Seat(device(0, users=("x",)), True, 0, True), Seat(device(1))), 1),
        ((Seat(device(0, measuring=True)), Seat(device(1))), 1),
        ((Seat(device(0, measuring=True), True, 1), Seat(device(1, measuring=True), True, 2)), 0),
        ((Seat(device(0), True, 1), Seat(device(1), True, 1, True)), 1),
        ((Seat(device(0), beside=1), Seat(device(1))), 1),
    ],
)
def test_the_free_one_is_chosen(seats: tuple[Seat, ...], index: int) -> None:
    assert choose(seats).device.index == index


class RecordingJudge:
    """Answers when it is let; `asked` holds the judge of each call in flight or answered: the
    purpose of an evaluation, its GPU, and its core behind a slash where it was given one."""

    alive = True

    def __init__(self, name: str, asked: list[str], gate: asyncio.Event) -> None:
        self._name, self._asked, self._gate = name, asked, gate

    async def call(self, message: dict[str, Any], progress: object) -> Any:
        purpose = message["request"]["purpose"] if "request" in message else ""
        self._asked.append(f"{purpose} {self._name}".strip())
        await self._gate.wait()
        if message["op"] == "open_task":
            return to_json(Task("t", "d", message["source"], "", (Case("default"),)))
        return to_json(
            Evaluation(
                candidate="c",
                language="cpp",
                task="d",
                target="cuda",
                purpose=purpose,
                status="correct",
                message="",
                policy="p",
                environment=Environment("cuda:Fake", "torch 2"),
            )
        )

    async def close(self) -> None:
        """Nothing was started."""


Start = Callable[[list[str], asyncio.Event], None]


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> Start:
    def install(asked: list[str], gate: asyncio.Event) -> None:
        async def start(python: str, cache: Path, gpu: str, core: int | None) -> RecordingJudge:
            return RecordingJudge(gpu if core is None else f"{gpu}/{core}", asked, gate)

        async def interpreter(executor: LocalExecutor) -> str:
            return "python"

        monkeypatch.setattr(local, "start_judge", start)
        monkeypatch.setattr(LocalExecutor, "_interpreter", interpreter)

    return install


def opened(tmp_path: Path, judges: Start, *targets: str) -> list[str]:
    """Which judges get these calls, made at once: GPUs by UUID, "" for the main one."""
    asked: list[str] = []

    async def body() -> None:
        gate = asyncio.Event()
        judges(asked, gate)
        async with LocalExecutor(None, tmp_path) as executor:
            calls = []
            for target in targets:
                calls.append(asyncio.create_task(executor.open_task(f"# {target}", "", target)))
                while len(asked) < len(calls):
                    await asyncio.sleep(0.01)
            gate.set()
            await asyncio.gather(*calls)

    asyncio.run(body())
    return asked


def test_calls_spread_over_the_gpus_of_the_target(
    tmp_path: Path, judges: Start, fake_nvml: FakeNvml
) -> None:
    fake_nvml.show(gpu(0), gpu(1, arch="8,0"), gpu(2))
    targets = ("cuda", "cuda:sm_90", "cuda", "cuda:sm_80", "cpu", "cuda:sm_100")
    assert opened(tmp_path, judges, *targets) == [
        "GPU-000-fake",
        "GPU-222-fake",
        "GPU-000-fake",
        "GPU-111-fake",
        "",
        "",
    ]


def test_one_gpu_or_none_needs_no_judge_of_its_own(
    tmp_path: Path, judges: Start, fake_nvml: FakeNvml
) -> None:
    fake_nvml.show(gpu(0))
    assert opened(tmp_path, judges, "cuda", "cpu", "cuda") == ["", "", ""]
    fake_nvml.show()
    assert opened(tmp_path, judges, "cuda") == [""]


def test_searches_share_a_gpu_and_a_confirmation_has_it_alone(
    tmp_path: Path, judges: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "list_devices", lambda: (device(0), device(1, arch="sm_80")))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    asked: list[str] = []

    async def body() -> None:
        gate = asyncio.Event()
        judges(asked, gate)
        task = Task("t", "d", "# text", "", (Case("default"),))
        async with LocalExecutor(None, tmp_path) as executor:

            def begin(purpose: Purpose) -> asyncio.Task[Evaluation]:
                request = EvaluationRequest(Candidate("x", "triton"), purpose)
                return asyncio.create_task(executor.evaluate(task, request, "cuda:sm_90"))

            calls = [begin("search"), begin("search")]
            while len(asked) < 2:
                await asyncio.sleep(0.01)
            calls += [begin("confirm"), begin("search")]
            await asyncio.sleep(0.05)
            assert asked == ["search GPU-0", "search GPU-0/2"]
            gate.set()
            await asyncio.gather(*calls)

    asyncio.run(body())
    assert [call.split()[0] for call in asked[2:]] == ["confirm", "search"]


def test_a_large_task_or_few_cores_leave_a_gpu_to_one_judge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    small, large = (
        Task("t", "d", "", "", (Case("c", bytes_held=held),)) for held in (1 << 12, 1 << 27)
    )
    assert (in_flight(small, device(0)), in_flight(large, device(0))) == (2, 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    assert in_flight(small, device(0)) == 1


def test_a_real_judge_sees_its_gpu_alone(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    """Its own process gets the choice in its environment; its workers for a CPU see no GPU."""
    fake_nvml.show(gpu(0), gpu(1))

    async def body() -> None:
        async with LocalExecutor(None, tmp_path) as executor:
            assert [d.index for d in await executor.devices()] == [0, 1]
            judge = await local.start_judge(await executor._interpreter(), tmp_path, "GPU-111-fake")
            try:
                report = await judge.call({"op": "describe"}, None)
                assert b"CUDA_VISIBLE_DEVICES=GPU-111-fake" in await _environment(
                    Path(f"/proc/{judge._process.pid}")
                )
                assert report["targets"][0]["target"] == "cpu"
                workers = [
                    p for p in Path("/proc").glob("[0-9]*") if _parent(p) == judge._process.pid
                ]
                assert workers
                for worker in workers:
                    seen = {b"CUDA_VISIBLE_DEVICES=GPU-111-fake", b"CUDA_VISIBLE_DEVICES="}
                    assert seen & set(await _environment(worker))
            finally:
                await judge.close()

    asyncio.run(body())


async def _environment(process: Path) -> list[bytes]:
    """Its variables; a process that has only just begun its program shows none for a moment."""
    async with asyncio.timeout(10):
        while not (content := (process / "environ").read_bytes()):
            await asyncio.sleep(0.01)
    return content.split(b"\0")


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0
