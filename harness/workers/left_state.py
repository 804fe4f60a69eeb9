"""Computes what calls of the reference leave in the parameters and buffers that its forward
updates."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ..wire import dtypes
from ..wire.layouts import plan_layout
from ..wire.nesting import tensors_of
from . import high_precision, model_calls, modules, placement, second_results
from .live_task import LiveCase, LiveTask
from .set_drawing import SetOrder, Write, draw_inputs
from .task_file import TaskProblem

Call = Callable[[Any], list[Any]]
COPY = "copy.deepcopy(model)"
KEPT_BYTES = 256 << 20  # of drawn inputs, which each way of computing needs again
SIXTEEN_BITS = 2.0**-8  # the roundoff of bfloat16: state of 8 bits is not moved
WHOLE = 1e-6  # by so much a sum of whole numbers in double precision is off from one


def write_left(
    task: LiveTask,
    write: Sequence[Write],
    orders: Sequence[SetOrder],
    names: Sequence[str],
    counts: Sequence[int],
    renewed: Sequence[Any] = (),
    *,
    evaluating: bool = False,
) -> dict[str, Any]:
    """Call the reference on the inputs of these sets, from its present state, and write the values
    of these parameters and buffers after each of `counts` calls, ascending: in high precision, in
    the framework's own dtype and, with a third descriptor, in high precision from numbers that are
    moved by roundings, see _Moved. renewed: other values of theirs to begin with.
    evaluating: in evaluation mode. Returns the layouts, in which the values after fewer calls come
    first."""
    case = task.cases[orders[0].case]
    present = modules.state(case.model, case.initial_state)
    before = [present[name].detach().clone() for name in case.initial_state]
    other = dict(zip(names, renewed, strict=True)) if renewed else {}
    start = [other.get(*each) for each in zip(case.initial_state, before, strict=True)]
    inputs = _Inputs(task, case, orders[: counts[-1]])

    def left_by(model: Any, moved: _Moved | None = None) -> list[Any]:
        case.set_state(start)  # again: both may be the same model
        doubled = case.doubled and model is case.precise
        if evaluating:
            model = task.attempt(partial(modules.copy_with_modes, model), COPY)
        call = model_calls.forward(model, case.upstream)
        left: list[Any] = []
        for number, (order, given) in enumerate(inputs):
            values = high_precision.to_double(given) if doubled else given
            if moved is not None:
                values = moved.before_call(model, values, order.seed + 4, number)
            made = partial(_evaluated, model, call) if evaluating else call
            task.attempt(partial(made, values))
            if number + 1 in counts:
                state = modules.state(model, case.initial_state)
                # copies: the next calls update the same tensors
                left += [state[name].detach().cpu().contiguous().clone() for name in names]
        return left

    try:
        with task.all_threads():
            ways = [left_by(case.precise), left_by(case.model)]
            if len(write) > len(ways):
                ways.append(ways[0])
                if case.doubled:
                    # moved numbers may leave a domain: probabilities above one
                    with contextlib.suppress(TaskProblem):
                        ways[-1] = left_by(case.precise, _Moved(task, case, present, names))
                if not placement.is_host(task.device) and inputs.have_roundings:
                    begun = dict(zip(case.initial_state, start, strict=True))
                    ways[-1] = [
                        _miscounted(moved, exact, begun[name])
                        for moved, exact, name in zip(
                            ways[-1], ways[0], itertools.cycle(names), strict=False
                        )
                    ]
    finally:
        case.set_state(before)
    layouts = [plan_layout(left) for left in ways]
    for put, layout, left in zip(write, layouts, ways, strict=True):
        put(layout, left)
    return dict(zip(("expected", "framework", "moved"), layouts, strict=False))


def works_with(
    task: LiveTask, orders: Sequence[SetOrder], names: Sequence[str], values: Sequence[Any]
) -> bool:
    """Return whether calls of the reference on these sets that begin with these values of these
    parameters and buffers return the same numbers as from its present ones, and leave numbers where
    those do."""
    case = task.cases[orders[0].case]
    present = modules.state(case.model, case.initial_state)
    before = [present[name].detach().clone() for name in case.initial_state]
    other = dict(zip(names, values, strict=True))
    call = model_calls.forward(case.model, case.upstream)

    def made(start: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        case.set_state(list(start))
        results: list[Any] = []
        for _, given in inputs:
            results += [each.detach().clone() for each in task.attempt(partial(call, given))]
        state = modules.state(case.model, case.initial_state)
        return results, [dtypes.is_finite(state[name].detach().cpu()) for name in names]

    inputs = _Inputs(task, case, orders)
    try:
        with task.all_threads():
            (usual, usual_left), (found, left) = (
                made(before),
                made([other.get(*each) for each in zip(case.initial_state, before, strict=True)]),
            )
    except TaskProblem:
        return False
    finally:
        case.set_state(before)
    return _are_same(usual, found) and all(
        bool((b | ~a).all()) for a, b in zip(usual_left, left, strict=True)
    )


def ignores_modes(task: LiveTask, orders: Sequence[SetOrder]) -> bool:
    """Return whether calls of the reference on these sets return the same in evaluation mode, in
    which a copy of it is called. False for a reference that cannot be copied, or whose copy changes
    it: a function that it keeps may hold the original."""
    case, same = task.cases[orders[0].case], True
    state = modules.state(case.model, case.initial_state)
    before = [each.detach().clone() for each in state.values()]
    try:
        with task.all_threads():
            # the precise one is copied for what calls in evaluation mode leave
            task.attempt(partial(modules.copy_with_modes, case.precise), COPY)
            model = task.attempt(partial(modules.copy_with_modes, case.model), COPY)
            call = model_calls.forward(model, case.upstream)
            for _, given in _Inputs(task, case, orders):
                usual = [each.detach().clone() for each in task.attempt(partial(call, given))]
                found = task.attempt(partial(_evaluated, model, call, given))
                same = same and _are_same(usual, found)
    except TaskProblem:
        return False
    state = modules.state(case.model, case.initial_state)
    return same and _are_same(before, list(state.values()))


def _evaluated(model: Any, call: Call, inputs: Any) -> list[Any]:
    """Return copies of what a call returns in evaluation mode: leaving it may change them."""
    with modules.in_evaluation(model):
        return [each.detach().clone() for each in call(inputs)]


def _are_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Return whether tensors have the same forms and numbers, NaN included."""
    return len(some) == len(others) and all(
        (one.shape, one.dtype) == (other.shape, other.dtype) and _same_numbers(one, other)
        for one, other in zip(some, others, strict=True)
    )


def _same_numbers(one: Any, other: Any) -> bool:
    one, other = dtypes.comparable(one), dtypes.comparable(other)
    return bool(((one == other) | ((one != one) & (other != other))).all())


class _Inputs:
    """The inputs of calls, in order, as often as they are asked for; drawn again where keeping all
    would take too much memory."""

    def __init__(self, task: LiveTask, case: LiveCase, orders: Sequence[SetOrder]) -> None:
        self._task, self._case, self._orders = task, case, orders
        self._kept: dict[SetOrder, Any] = {}
        self._kept_bytes = 0
        counts = Counter(orders)
        self._repeated = {order for order, count in counts.items() if count > 1}

    @property
    def have_roundings(self) -> bool:
        """Whether some are numbers that rounding errors change."""
        return any(dtypes.rounds(each.dtype) for each in tensors_of(self._of(self._orders[0])))

    def __iter__(self) -> Iterator[tuple[SetOrder, Any]]:
        for order in self._orders:
            yield order, self._of(order)

    def _of(self, order: SetOrder) -> Any:
        if order in self._kept:
            return self._kept[order]
        inputs = placement.move(draw_inputs(self._task, self._case, order), self._task.device)
        size = sum(each.nbytes for each in tensors_of(inputs))
        # a few sets are used again and again, whatever their size
        if self._kept_bytes + size <= KEPT_BYTES or order in self._repeated:
            self._kept[order] = inputs
            self._kept_bytes += size
        return inputs


def _miscounted(moved: Any, exact: Any, before: Any) -> Any:
    """Return moved values with one more in each element to which a whole number was added, where
    these numbers differ: decisions were counted, some of which rounding errors turn, and inputs on
    a device are not moved, which would show it. A counter adds the same everywhere. Where values
    have a byte each, ones are no roundings."""
    if not before.is_floating_point() or before.element_size() < 2:
        return moved
    added = exact.double() - before.detach().cpu().double()
    changed, numbers = added != 0, added.round()
    whole = bool(((added - numbers).abs() < WHOLE).all())
    if not whole or len(numbers[changed].unique()) < 2:
        return moved
    return moved.double() + changed


class _Moved:
    """Moves what the reference in double precision reads, to show what its updates make of rounding
    errors: what it updates, by a rounding of its dtype before each call; inputs and parameters,
    which are terms of sums, by one of single precision, in which sums are computed at least."""

    def __init__(
        self, task: LiveTask, case: LiveCase, present: Mapping[str, Any], updated: Sequence[str]
    ) -> None:
        self._initial = case.initial_state
        # an error of a device outlives the call that it ends
        self._moves_inputs = placement.is_host(task.device)
        roundoffs = {
            name: dtypes.ROUNDOFF.get(dtypes.name_of(present[name].dtype)) for name in updated
        }
        self._updated = {name: by for name, by in roundoffs.items() if by and by <= SIXTEEN_BITS}
        others = [name for name in case.initial_state if name not in updated]
        self._others: dict[str, float] = dict.fromkeys(others, dtypes.ROUNDOFF["float32"])

    def before_call(self, model: Any, inputs: Any, seed: int, number: int) -> Any:
        """Move the state of a model in double precision, and return moved inputs. number: of the
        call."""
        self._move(model, {**self._others, **self._updated}, seed + 1 + number)
        self._others = {}  # parameters stay as they are now
        if not self._moves_inputs:
            return inputs
        return second_results.moved_apart(inputs, dtypes.ROUNDOFF["float32"], seed)

    def _move(self, model: Any, amounts: Mapping[str, float], seed: int) -> None:
        import torch

        state = modules.state(model, self._initial)
        with torch.no_grad():
            for place, (name, by) in enumerate(amounts.items()):
                moved = second_results.moved_apart(state[name], by, seed + 1000 * place)
                state[name].copy_(moved)
