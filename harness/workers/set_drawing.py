"""Draws input sets of a case and computes the reference's results for them in high precision."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..wire import buffers, device_memory, dtypes
from ..wire.layouts import Layout, plan_layout
from ..wire.slack import Slack
from ..wire.task_lines import FORWARD
from . import (
    certainties,
    families,
    high_precision,
    model_calls,
    placement,
    replaced_products,
    rounding,
    sampled_parts,
    sampled_results,
    second_results,
    settled_results,
    tensor_relations,
    uncertainty,
)
from .live_task import CALL, LiveCase, LiveTask, plain_values_text
from .task_file import TaskProblem

Write = Callable[..., None]  # layout, tensors, start in bytes


@dataclass(frozen=True)
class SetOrder:
    """An order to draw one set. slack: see rounding.compute_alternatives, None without any."""

    case: str
    seed: int
    family: str
    slack: Slack | None = None


@dataclass(frozen=True)
class _Results:
    """A drawn set. inputs: including upstream gradients. arguments: the inputs on the device.
    expected: the reference's outputs in high precision. alternatives: its outputs where values near
    a tie round the other way. call, precise: what gave the expected outputs. certain: of each
    decision, see certainties. known: what was measured of these."""

    inputs: list[Any]
    arguments: list[Any]
    expected: list[Any]
    alternatives: list[list[Any]]
    call: Callable[[Any], list[Any]]
    precise: Any
    certain: Sequence[certainties.Certainty]
    known: uncertainty.Uncertainty | None

    def second(self, kind: second_results.Kind, seed: int) -> list[Any]:
        """Return the second results of the same inputs, see second_results."""
        return second_results.compute(kind, self.call, self.precise, seed)


def writers(fds: Sequence[int], sizes: Sequence[int]) -> list[Write]:
    """Return a function for each descriptor that writes tensors to it: to a file or, with sizes in
    bytes, to device memory."""
    if not sizes:
        return [partial(_write_to_file, fd) for fd in fds]
    regions = [
        device_memory.map_descriptor(fd, size, writable=True)
        for fd, size in zip(fds, sizes, strict=True)
    ]
    return [partial(buffers.put, region) for region in regions]


def _write_to_file(fd: int, layout: Layout, value: Any, base: int = 0) -> None:
    buffers.write(fd, layout, placement.move(value, "cpu"), base)


def make_set(
    task: LiveTask,
    write: Sequence[Write],
    order: SetOrder,
    *,
    sampled: bool = False,
    replaced: bool = False,
) -> dict[str, Any]:
    """Draw a set, with expected outputs in float64 where they are floating. write: for inputs,
    expected outputs, the framework's own outputs, second results if the case has some, and the
    alternatives. sampled, replaced: whether to return the errors of samples, and of inputs of
    another draw and of products, see sampled_results and replaced_products."""
    case = task.cases[order.case]
    with task.all_threads():
        results = _compute(task, case, order)
        layout = task.plan(results.inputs, "get_inputs", case.begins)
        write[0](layout, results.inputs)
        finite = all(
            bool(dtypes.comparable(t).isfinite().all())
            for t in results.expected
            if t.is_floating_point()
        )
        # of places that an output holds, the wrong ones would be expected
        discrete = not all(map(dtypes.rounds, _dtypes(case)))
        left_open: list[int] = []
        if order.slack and discrete:
            left_open = rounding.outputs_left_open(
                results.call,
                results.precise,
                order.slack,
                results.expected,
                results.certain,
                results.known,
            )
        expected = _in_high_precision(case, results.expected)
        expected_layout = plan_layout(expected)
        write[1](expected_layout, expected)
        write[2](case.outputs, _framework_outputs(case, results))
        second = _in_high_precision(case, results.second(case.second, order.seed + 3))
        second_layout = plan_layout(second)
        if second:
            write[3](second_layout, second)
        for put, alternative in zip(
            write[len(write) - len(results.alternatives) :], results.alternatives, strict=True
        ):
            put(case.outputs, alternative)
        memory = _output_memory(task, case, layout, results.arguments)
        call = settled_results.settling(results.call, results.expected, results.alternatives)
        given = call, results.precise, results.expected
        another = replace(order, seed=order.seed + 5)
        draw = functools.cache(lambda: draw_inputs(task, case, another))
        effects = {
            "sampled": sampled_results.errors(*given) if sampled else [],
            "replaced": sampled_results.replaced_errors(*given, draw) if replaced else [],
            "products": replaced_products.errors(*given, draw) if replaced else [],
            "axes": sampled_parts.axis_errors(*given) if replaced else [],
        }
        if sampled or replaced:
            effects["pieces"], effects["replaced_pieces"] = sampled_parts.errors(
                *given, sampled=sampled, draw=draw if replaced else None
            )
    return {
        "layout": layout,
        "memory": memory,
        "effects": effects,
        "expected": expected_layout,
        "second": second_layout,
        "finite": finite,
        "left_open": left_open,
    }


def make_group_set(
    task: LiveTask,
    write: Sequence[Write],
    order: SetOrder,
    base: int,
    expected_base: int,
    framework: list[int],
) -> dict[str, Any]:
    """Draw a set of a group, with expected outputs rounded to the outputs' dtypes. base,
    expected_base: the start of its inputs and of its outputs, in bytes. framework: indices of the
    outputs for which the framework's own results are written as well."""
    case = task.cases[order.case]
    results = _compute(task, case, order)
    layout = task.plan(results.inputs, "get_inputs", case.begins)
    write[0](layout, results.inputs, base)
    write[1](
        case.outputs,
        [t.to(d).contiguous() for t, d in zip(results.expected, _dtypes(case), strict=True)],
        expected_base,
    )
    if framework:
        outputs = _framework_outputs(case, results)
        leaves = [case.outputs["leaves"][number] for number in framework]
        write[2](
            {**case.outputs, "leaves": leaves},
            [outputs[number] for number in framework],
            expected_base,
        )
    for put, alternative in zip(
        write[len(write) - len(results.alternatives) :], results.alternatives, strict=True
    ):
        put(case.outputs, alternative, expected_base)
    return {"layout": layout, "memory": _output_memory(task, case, layout, results.arguments)}


def draw_inputs(task: LiveTask, case: LiveCase, order: SetOrder) -> list[Any]:
    """Return the inputs of a set in host memory, upstream gradients included."""
    sample = task.draw(case.spec, order.seed)
    if tensor_relations.specs(sample) != case.specs:
        raise TaskProblem(
            f"{task.lines.at('get_inputs')}: get_inputs(): shapes, strides or dtypes differ "
            "between draws; they must be fixed for a case (use CASES to vary shapes)"
        )
    upstream = task.draw_upstream(case, order.seed + 2)
    return families.vary([*sample, *upstream], order.family, order.seed + 1)


def _compute(task: LiveTask, case: LiveCase, order: SetOrder) -> _Results:
    inputs = draw_inputs(task, case, order)
    call = model_calls.forward(case.precise, case.upstream)
    arguments = placement.move(inputs, task.device)
    precise = high_precision.to_double(arguments) if case.doubled else arguments
    expected = task.attempt(lambda: call(precise), f"{CALL} in float64")
    if [list(t.shape) for t in expected] != [leaf["shape"] for leaf in case.outputs["leaves"]]:
        raise TaskProblem(
            f"{task.lines.at(*FORWARD)}: the outputs' shapes depend on the inputs' values; "
            "they must be fixed for a case (use CASES to vary shapes)"
        )
    certain, known = list[certainties.Certainty](), None
    if order.slack:
        working = model_calls.forward(case.model, case.upstream)
        certain = certainties.find(working, arguments, call, precise)
        known = uncertainty.measure(call, precise, order.slack, certain)
    alternatives = rounding.compute_alternatives(
        call, precise, order.slack, _dtypes(case), certain, known
    )
    return _Results(inputs, arguments, expected, alternatives, call, precise, certain, known)


def _framework_outputs(case: LiveCase, results: _Results) -> list[Any]:
    outputs = model_calls.forward(case.model, case.upstream)(results.arguments)
    return [t.contiguous() for t in outputs]


def _output_memory(
    task: LiveTask, case: LiveCase, layout: Layout, arguments: Any
) -> dict[str, list[int]]:
    """Return where the outputs lie for these inputs. The case's answer is valid unless the inputs
    besides tensors differ or the model may branch on values."""
    if plain_values_text(layout) == case.values and not case.looks:
        return case.memory
    call = model_calls.forward(case.model, case.upstream)
    return tensor_relations.memory(call(arguments), call(arguments))


def _in_high_precision(case: LiveCase, outputs: list[Any]) -> list[Any]:
    """Return results of the reference in high precision as they are written, [] for []."""
    return [
        (dtypes.comparable(t) if dtypes.rounds(d) else t.to(d)).contiguous()
        for t, d in zip(outputs, _dtypes(case), strict=bool(outputs))
    ]


def _dtypes(case: LiveCase) -> list[Any]:
    import torch

    return [getattr(torch, leaf["dtype"]) for leaf in case.outputs["leaves"]]
