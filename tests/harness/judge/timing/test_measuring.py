"""What is done around the timing itself: disturbed blocks are measured again within a bound and
said, caches are forgotten."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.judge.errors import WorkerTimeout
from harness.judge.figures.block import Block
from harness.judge.figures.case_times import CaseTimes
from harness.judge.outcomes import Timed, Verified
from harness.judge.processes.reaper import Reaper
from harness.judge.timing import blocks, extra_figures, measuring, paired
from harness.judge.timing.paired import PROCESSES, BaselineLost
from harness.targets import cpu
from harness.targets.state import DeviceState
from harness.types import (
    AllCores,
    Candidate,
    Case,
    CaseResult,
    Ceilings,
    EvaluationRequest,
    Policy,
)
from harness.workers import placement
from tests.harness.conftest import Bench as JudgeBench

CALM = DeviceState(0)
STRANGER = DeviceState(0, foreign=("process 9 (train)",))
HOT_CHIP = DeviceState(0, throttled=("temperature",))


def block(state: DeviceState, own: float = 10.0, baseline: float = 20.0) -> Block:
    pairs = [(baseline, own)] * 8
    return Block(
        {"eager": pairs},
        CALM,
        state,
        inner_ns=[own] * 8,
        outer_ns=[own] * 8,
        gap_ns=[0.0] * 8,
        faults=[0.0],
        launch_us=[own],
        baseline_faults=[0.0],
        warm_us={"": own / 2, "eager": baseline / 2},
        end_to_end_us={"": own + 5, "eager": baseline + 5},
    )


class Bench:
    """time_candidate with a scripted state of the device in place of processes. `started` counts
    candidate processes."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        scripted: Iterator[Block],
        purpose: Any = "search",
        screened: Any = None,
    ) -> None:
        self.started = 0
        self.told: list[str] = []
        self.cores: list[int] = []
        self.baselines: list[list[str]] = []
        self.hot: list[bool] = []
        case = Case("only", baselines_us=screened or {"eager": 20.0})
        machine = SimpleNamespace(
            ceilings_of=lambda family: Ceilings(
                {"memory": 1.0}, {"memory": 1.0}, {"float32": 1.0}, {"memory": 1 << 40}
            ),
            environment_of=lambda family: SimpleNamespace(allocation="alike"),
            reaper=Reaper(),
        )
        self.context: Any = SimpleNamespace(
            cases=[case],
            request=EvaluationRequest(Candidate("x", "cpp"), purpose, cases=("only",)),
            confirming=purpose in ("confirm", "export"),
            ablating=False,
            task=SimpleNamespace(
                pools=defaultdict(
                    lambda: SimpleNamespace(
                        predictable=[],
                        sampled_alike=[],
                        hardly_read=[],
                        state_bytes=0,
                        shared=False,
                        calls=1,
                        held_bytes=0,
                        describe={"workspace_bytes": 0},
                    )
                ),
                family=cpu,
                crowds_memory=False,
                restart_baselines=lambda **_: None,
                release=lambda case: None,
            ),
            machine=machine,
            tell=lambda stage, text, fraction: self.told.append(text),
        )

        def start(context: Any, cores: Any = ()) -> Any:
            self.started += 1
            return SimpleNamespace(
                close=lambda: None,
                kill=lambda: None,
                release_device_memory=lambda: None,
                sock=SimpleNamespace(close=lambda: None),
            )

        def time_case(
            context: Any,
            case: Case,
            worker: Any,
            baselines: list[str],
            rng: Any,
            cores: Any = (),
            *,
            hot: bool = True,
        ) -> Block:
            self.cores.append(len(cores))
            self.hot.append(hot)
            self.baselines.append(baselines)
            return next(scripted)

        for module in (measuring, extra_figures):
            monkeypatch.setattr(module, "start_worker", start)
        monkeypatch.setattr(measuring, "prestart_timed", lambda context: None)
        monkeypatch.setattr(blocks, "draw", lambda context, case: None)
        monkeypatch.setattr(measuring, "PAUSE_S", 0)
        monkeypatch.setattr(blocks, "time_case", time_case)

    def time(self) -> Timed:
        verified = Verified(results={"only": CaseResult("only", correct=True)})
        return measuring.time_candidate(self.context, verified)


def names(timed: Timed) -> list[str]:
    return [s.name for s in timed.signals]


def test_a_calm_device_is_measured_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, iter([block(CALM)] * PROCESSES))
    timed = bench.time()
    assert bench.started == PROCESSES
    assert bench.hot == [True, False, False]  # what is shown beside a search's verdict
    assert names(timed) == []
    assert timed.data["blocks"]["only"]["repeated"] == 0
    found = timed.results["only"]
    assert (found.latency_us, found.warm_us, found.baseline_warm_us) == (10.0, 5.0, 10.0)
    assert (found.end_to_end_us, found.baseline_end_to_end_us) == (15.0, 25.0)


def test_a_disturbed_block_is_measured_again_by_a_fresh_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = block(STRANGER, own=1.0)
    bench = Bench(monkeypatch, iter([wrong, *[block(CALM)] * PROCESSES]))
    timed = bench.time()
    assert bench.started == PROCESSES + 1
    assert timed.results["only"].latency_us == 10.0  # nothing of the disturbed blocks counts
    assert names(timed) == []
    assert timed.data["blocks"]["only"]["repeated"] == 1
    assert any("process 9 (train)" in text for text in bench.told)


def test_what_does_not_pass_is_bounded_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, iter([block(STRANGER)] * (PROCESSES + measuring.REPEATS)), "confirm")
    monkeypatch.setattr(
        extra_figures, "measure_extra_figures", lambda context, case, result, *_: result
    )
    timed = bench.time()
    assert bench.started == PROCESSES + measuring.REPEATS
    (signal,) = timed.signals
    assert signal.name == "foreign_process"
    assert signal.evidence == {"disturbed": float(PROCESSES), "repeated": float(measuring.REPEATS)}
    assert "process 9 (train)" in signal.message
    assert len(timed.data["blocks"]["only"]["counted"]) == PROCESSES
    assert timed.results["only"].speedup == 2.0


def test_a_confirmation_goes_on_while_a_case_is_unclear(monkeypatch: pytest.MonkeyPatch) -> None:
    differing = [block(CALM, own=own) for own in (19.0, 17.0, 18.5)]
    bench = Bench(
        monkeypatch,
        iter([*differing, *[block(CALM, own=18.2)] * 9]),
        "export",
        {"eager": 20.0, "slow": 99.0},
    )
    timed = bench.time()
    assert paired.PROCESSES < timed.data["processes"]["only"] < measuring.MOST_PROCESSES
    assert bench.baselines[: paired.PROCESSES + 1] == [["eager", "slow"]] * paired.PROCESSES + [
        ["eager"]
    ]
    found = timed.results["only"]
    assert found.verdict == "faster"
    assert 1 < found.interval[0] < 20 / 18.2 < found.interval[1]


def test_a_confirmation_ends_where_nothing_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(
        monkeypatch,
        iter([block(CALM, own=own) for own in (18.0, 22.0)] * measuring.MOST_PROCESSES),
        "export",
    )
    timed = bench.time()
    assert timed.data["processes"]["only"] == measuring.MOST_PROCESSES
    assert timed.results["only"].verdict == "inconclusive"
    monkeypatch.setattr(cpu, "PATIENCE_S", 0.0)
    bench = Bench(monkeypatch, iter([block(CALM, own=own) for own in (18.0, 22.0)] * 8), "export")
    assert bench.time().data["processes"]["only"] == paired.PROCESSES


def test_a_search_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, iter([block(CALM, own=own) for own in (18.0, 22.0)] * 8))
    assert bench.time().data["processes"]["only"] == paired.PROCESSES


def test_a_search_leaves_what_is_plainly_behind_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, iter([block(CALM)] * PROCESSES))  # 2x
    bench.context.request = replace(bench.context.request, best=3.0)
    timed = bench.time()
    assert timed.data["processes"]["only"] == 1
    assert names(timed) == ["timed_briefly"]
    assert "F = 2.000" in timed.signals[0].message
    found = timed.results["only"]
    assert (found.speedup, found.verdict) == (2.0, "inconclusive")
    assert found.interval[0] < 1.8 < 2.2 < found.interval[1]  # one process is not sure of more


@pytest.mark.parametrize(("best", "purpose"), [(2.05, "search"), (0.0, "search"), (9.0, "export")])
def test_what_may_be_the_best_is_timed_to_the_end(
    monkeypatch: pytest.MonkeyPatch, best: float, purpose: str
) -> None:
    bench = Bench(monkeypatch, iter([block(CALM)] * PROCESSES), purpose)
    bench.context.request = replace(bench.context.request, best=best)
    timed = bench.time()
    assert timed.data["processes"]["only"] == PROCESSES
    assert names(timed) == []


def test_throttling_has_its_own_word(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, iter([block(HOT_CHIP)] * (PROCESSES + measuring.REPEATS)))
    timed = bench.time()
    assert names(timed) == ["throttled"]


@pytest.mark.parametrize(
    ("cores", "processes", "verdict"), [(2, 1, None), (4, PROCESSES, "faster"), (1, 0, None)]
)
def test_all_cores_are_shown_and_judged_only_where_there_are_enough(
    monkeypatch: pytest.MonkeyPatch, cores: int, processes: int, verdict: str | None
) -> None:
    scripted = [*[block(CALM)] * PROCESSES, *[block(CALM, own=4.0)] * processes]
    bench = Bench(monkeypatch, iter(scripted), "confirm")
    monkeypatch.setattr(extra_figures.os, "sched_getaffinity", lambda _: set(range(cores)))
    timed = bench.time()
    assert bench.cores == [0] * PROCESSES + [cores] * processes
    found = timed.results["only"]
    assert (found.latency_us, found.threads) == (10.0, 1)
    if not processes:
        assert found.all_cores is None
        return
    assert isinstance(found.all_cores, AllCores)
    assert (found.all_cores.threads, found.all_cores.latency_us, found.all_cores.baseline_us) == (
        cores,
        4.0,
        20.0,
    )
    assert (found.all_cores.verdict, found.all_cores.interval is None) == (verdict, verdict is None)


def test_figures_of_one_process_each_are_summed_up_by_their_median() -> None:
    times = CaseTimes([block(CALM, own) for own in (10.0, 14.0, 12.0)])
    assert times.median_of("warm_us", "") == 6.0
    assert times.median_of("warm_us", "compile") is None


def test_a_baseline_that_fails_is_not_the_candidates_fault() -> None:
    lost = pytest.raises(BaselineLost, match="compile did not answer")
    with lost, paired._losing_baseline("compile"):
        raise WorkerTimeout


def test_persisting_lines_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    class Driver:
        def __init__(self, name: str) -> None:
            asked.append((name,))

        def cuCtxSetLimit(self, limit: int, value: Any) -> int:  # the driver's name
            asked.append((limit, value.value))
            return 0

        def cuCtxResetPersistingL2Cache(self) -> int:
            asked.append(("reset",))
            return 0

    monkeypatch.setattr(placement.ctypes, "CDLL", Driver)
    placement._forget_persisting_lines()
    assert asked == [("libcuda.so.1",), (6, 0), ("reset",)]


def test_a_machine_without_the_driver_has_none_to_forget(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(placement.ctypes, "CDLL", missing)
    placement._forget_persisting_lines()


@pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2,
    reason="a timed candidate is known by the core that it cannot leave",
)
def test_both_sides_of_a_comparison_are_forks_of_one_process(bench: JudgeBench) -> None:
    """Where libraries lie is drawn anew for each process that is started, and not for its forks."""
    tell = "raise ValueError(f'type lies at {id(type)}')"
    task = (
        f"import torch\n\ndef reference(x):\n    return x.sin()\n\ndef telling(x):\n    {tell}\n\n"
        "def get_inputs():\n    return [torch.randn(8, 32)]\n\n"
        "BASELINES = {'telling': lambda: telling}\n"
    )
    candidate = f"""
import os

def kernel(x):
    try:
        os.sched_setaffinity(0, range(os.cpu_count()))
    except OSError:  # a candidate that is timed cannot leave its core
        {tell}
    return x.sin()
"""
    opened = bench.run(bench.executor.open_task(task, "", "cpu", timed=True))
    request = EvaluationRequest(
        Candidate(candidate, "cpp"), "check", "time", Policy(library_calls="allow")
    )
    found = bench.run(bench.executor.evaluate(opened, request, "cpu"))
    said = [re.search(r"type lies at (\d+)", text) for text in (found.message, *opened.notes)]
    assert len({match[1] for match in said if match}) == 1
    assert sum(match is not None for match in said) == 2
