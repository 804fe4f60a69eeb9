"""Operators inside higher-order ones are seen like any others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops import scan, while_loop
from torch._ops import HigherOrderOperator
from torch.nn.attention.flex_attention import flex_attention

from harness.workers import certainties, dataflow, guards, open_ties, operators, second_results
from harness.workers.traffic import Reads

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")

X = torch.randn(8, 16)
QUERY = torch.randn(1, 2, 128, 16)


class Tanh:
    """A branch that is no plain function."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x.tanh()


def choose() -> list[Any]:
    return [torch.cond(X.sum() < 1e9, Tanh(), Tanh(), (X,))]


def choose_twice() -> list[Any]:
    def inner(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 1e9, torch.sin, torch.tanh, (x,))

    return [torch.cond(X.sum() < 1e9, inner, torch.sin, (X,))]


def repeat() -> list[Any]:
    return list(
        while_loop(lambda n, _: n < 3, lambda n, x: (n + 1, x.tanh()), (torch.tensor(0), X))
    )


def go_through() -> list[Any]:
    return list(scan(lambda carry, x: (carry + x, x.tanh()), torch.zeros(16), X))


def attend() -> list[Any]:
    return [flex_attention(QUERY, QUERY, QUERY, score_mod=lambda s, b, h, i, j: (s + i - j).tanh())]


def compile_whole() -> list[Any]:
    return [torch.compile(torch.tanh, fullgraph=True, backend="eager")(X)]


CALLS = [choose, choose_twice, repeat, go_through, attend, compile_whole]
Call = Callable[[], list[Any]]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
@torch.no_grad()
def test_operators_inside_are_recorded(call: Call) -> None:
    expected = call()
    with guards.Guard() as guard, operators.Recorder() as recorder:
        results = call()
    guard.check()
    assert "aten.tanh.default" in recorder.counts()
    assert recorder.looks == (call in (choose, choose_twice, repeat))
    for again in (results, call()):  # what a mode saw once can still be compiled
        assert all(torch.allclose(a, b) for a, b in zip(expected, again, strict=True))


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
@torch.no_grad()
def test_no_mode_refuses_them(call: Call) -> None:
    operators.call_counted(lambda _: call(), [])
    open_ties.find(lambda _: call(), [X], [])
    certainties.unit(lambda _: call(), [], lambda _: call(), [])
    second_results.kind_for(lambda _: call(), [], call(), pointwise=False, solving=False)
    with Reads([X, QUERY]) as reads:
        call()
    assert reads.nbytes == X.nbytes + QUERY.nbytes
    assert any("tanh" in row for row in dataflow.graph(lambda _: call(), []))


def test_allocations_inside_are_guarded() -> None:
    with torch.no_grad(), guards.Guard() as guard:
        torch.cond(X.sum() < 1e9, lambda x: torch.zeros(5) + x.sum(), lambda x: x[0, :5], (X,))
        assert any("zeros" in label for label, *_ in guard._surroundings)
        guard.check()


def test_what_a_higher_order_operator_computes_itself_counts_as_one() -> None:
    with torch.no_grad(), operators.Recorder() as recorder:
        flex_attention(QUERY, QUERY, QUERY)
    assert "higher_order.flex_attention" in recorder.counts()
    assert not operators.is_free("higher_order.flex_attention")


def test_times_do_not_count_twice() -> None:
    with torch.no_grad(), operators.Recorder() as recorder:
        choose()
    assert sum(ns for *_, ns in recorder.counts().values()) == recorder._total_ns


def test_nobody_hides_work_in_one_of_a_free_name() -> None:
    class Clone(HigherOrderOperator):
        def __init__(self) -> None:
            super().__init__("clone")  # type: ignore[no-untyped-call]

        def __call__(self, x: torch.Tensor) -> Any:
            return super().__call__(x)  # type: ignore[no-untyped-call]

    clone = Clone()
    clone.fallthrough(torch._C.DispatchKey.AutogradCPU)  # type: ignore[no-untyped-call]
    clone.py_impl(torch._C.DispatchKey.CompositeExplicitAutograd)(torch.tanh)
    with torch.no_grad(), operators.Recorder() as recorder:
        clone(X)
    assert not operators.is_free(*recorder.counts())


@pytest.mark.parametrize("namespace", ["aten", "prims"])
def test_an_operator_that_a_text_adds_to_the_frameworks_own_is_told_apart(namespace: str) -> None:
    added = torch.library.Library(namespace, "FRAGMENT")
    added.define("clone.of_a_text(Tensor x) -> Tensor")
    added.impl("clone.of_a_text", torch.tanh, "CompositeExplicitAutograd")
    with torch.no_grad(), operators.Recorder() as recorder:
        getattr(torch.ops, namespace).clone.of_a_text(X)
        X.clone()
    assert {f"added.{namespace}.clone.of_a_text", "aten.clone.default"} <= set(recorder.counts())
    assert not operators.is_free(f"added.{namespace}.clone.of_a_text")
    added._destroy()
