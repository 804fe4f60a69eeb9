"""Calls as programs make them: in another thread, in evaluation mode."""

from __future__ import annotations

import contextvars
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.workers import call_manners


class Module(torch.nn.Module):
    """Notes where and how it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[bool, bool, bool]] = []
        self.frozen = torch.nn.Dropout().eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        here = threading.current_thread() is threading.main_thread()
        self.seen.append((here, self.training, torch.is_grad_enabled()))
        if bool(x.isnan().any()):
            raise ValueError("no numbers")
        return x + 1


def prepared(module: Any) -> Any:
    return SimpleNamespace(model=module, call=lambda inputs: [module(*inputs)])


@pytest.mark.parametrize("records", [True, False])
@pytest.mark.parametrize(
    ("manner", "here", "training"),
    [
        ("", True, True),
        ("in_a_thread", False, True),
        ("in_a_context", False, True),
        ("in_eval", True, False),
    ],
)
def test_a_call_is_made_where_and_how_it_is_said(
    manner: str, here: bool, training: bool, records: bool
) -> None:
    module = Module()
    with torch.set_grad_enabled(records):
        (found,) = call_manners.wrap(prepared(module), manner)([torch.zeros(3)])
    assert found.tolist() == [1.0] * 3
    assert module.seen == [(here, training, records)]
    assert module.training
    assert not module.frozen.training


@pytest.mark.parametrize("manner", ["in_a_thread", "in_a_context", "in_eval"])
def test_errors_are_those_of_the_call_and_the_mode_is_as_before(manner: str) -> None:
    module = Module()
    with pytest.raises(ValueError, match="no numbers"):
        call_manners.wrap(prepared(module), manner)([torch.full((2,), torch.nan)])
    assert module.training


def test_a_function_has_no_modes() -> None:
    calls = SimpleNamespace(model=torch.relu, call=lambda inputs: [torch.relu(*inputs)])
    (found,) = call_manners.wrap(calls, "in_eval")([torch.tensor([-1.0, 2.0])])  # type: ignore[arg-type]
    assert found.tolist() == [0.0, 2.0]


SCALE: contextvars.ContextVar[float] = contextvars.ContextVar("scale")
SCALE.set(2.0)  # once, when the module is loaded


def test_context_variables_are_known_in_a_copied_context_alone() -> None:
    calls: Any = SimpleNamespace(model=None, call=lambda inputs: [inputs[0] * SCALE.get()])
    token = SCALE.set(3.0)
    try:
        (found,) = call_manners.wrap(calls, "in_a_context")([torch.ones(2)])
        assert found.tolist() == [3.0, 3.0]
        with pytest.raises(LookupError):
            call_manners.wrap(calls, "in_a_thread")([torch.ones(2)])
    finally:
        SCALE.reset(token)


def test_what_a_thread_keeps_is_its_own_in_a_copied_context() -> None:
    kept = threading.local()
    kept.scale = 2.0
    calls: Any = SimpleNamespace(model=None, call=lambda inputs: [inputs[0] * kept.scale])
    with pytest.raises(AttributeError):
        call_manners.wrap(calls, "in_a_context")([torch.ones(2)])


class Merging(torch.nn.Module):
    """Merges its delta for evaluation. silent: keeps no mode of its own."""

    def __init__(self, *, silent: bool = False) -> None:
        super().__init__()
        self.weight, self.delta, self.merged = 1.0, 2.0, False
        self.silent = silent

    def train(self, mode: bool = True) -> Merging:
        if not self.silent:
            super().train(mode)
        if self.merged == bool(mode):
            self.weight += -self.delta if mode else self.delta
            self.merged = not mode
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (self.weight if self.merged else self.weight + self.delta)


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_evaluation_is_left_by_train(inside: bool, silent: bool) -> None:
    part = Merging(silent=silent)
    module = torch.nn.Sequential(part) if inside else part
    (found,) = call_manners.wrap(prepared(module), "in_eval")([torch.ones(2)])
    assert found.tolist() == [3.0, 3.0]
    assert module.training
    assert (part.merged, part.weight) == (False, 1.0)


def test_a_result_is_as_it_was_in_evaluation_mode() -> None:
    class Kept(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("last", torch.zeros(2))

        def train(self, mode: bool) -> Kept:  # type: ignore[override]
            self.last.zero_()
            return super().train(mode)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.last.copy_(x)
            return self.last

    (found,) = call_manners.wrap(prepared(Kept()), "in_eval")([torch.ones(2)])
    assert found.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("evaluating", ["part", "whole"])
def test_a_part_that_was_evaluating_still_is_by_its_own_account(evaluating: str) -> None:
    part = Merging()
    module = torch.nn.Sequential(torch.nn.Sequential(part), torch.nn.Dropout())
    (module[0] if evaluating == "part" else module).eval()
    modes = [each.training for each in module.modules()]
    call_manners.wrap(prepared(module), "in_eval")([torch.ones(2)])
    assert [each.training for each in module.modules()] == modes
    assert (part.merged, part.weight) == (True, 3.0)
