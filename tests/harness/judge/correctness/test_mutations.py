"""A slice of `benchmarks/oracle_mutations.py`: one kernel through the evaluator, as written and
with each of its mistakes."""

from __future__ import annotations

import pytest

from benchmarks.mutants import KERNELS
from harness.types import Candidate, EvaluationRequest, Task
from tests.harness.conftest import Bench

KERNEL = next(k for k in KERNELS if k.name == "masked_mean")


@pytest.fixture(scope="module")
def task(bench: Bench) -> Task:
    return bench.run(bench.executor.open_task(KERNEL.task, "", "cpu", timed=False))


def status(bench: Bench, task: Task, source: str) -> tuple[str, str]:
    found = bench.run(
        bench.executor.evaluate(
            task, EvaluationRequest(Candidate(source, "cpp"), "check", "verify"), "cpu"
        )
    )
    return found.status, found.message


@pytest.mark.parametrize("name", ["", *KERNEL.variants])
def test_an_honest_kernel_is_right(bench: Bench, task: Task, name: str) -> None:
    found, message = status(bench, task, KERNEL.candidate(*KERNEL.variants.get(name, ("", ""))))
    assert found == "correct", message


@pytest.mark.parametrize("name", KERNEL.mutants)
def test_a_mistake_is_found(bench: Bench, task: Task, name: str) -> None:
    found, message = status(bench, task, KERNEL.candidate(*KERNEL.mutants[name]))
    assert found in ("incorrect", "crashed"), message


def test_there_are_enough_mutants_and_each_replaces_a_text_that_is_there() -> None:
    texts = [
        k.candidate(*replaced)
        for k in KERNELS
        for replaced in (*k.mutants.values(), *k.variants.values())
    ]
    assert len(set(texts)) == len(texts)
    assert sum(len(k.mutants) for k in KERNELS) >= 120
