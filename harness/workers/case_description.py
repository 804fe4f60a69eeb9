"""The description of a task's case: constructs its model, calls it a few times, and reports the
properties of the calls."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..wire import dtypes
from ..wire.layouts import dense_layout, plain_values, plan_layout
from ..wire.nesting import tensors_of
from ..wire.task_lines import FORWARD
from . import (
    certainties,
    counted_outputs,
    dataflow,
    earlier_calls,
    families,
    high_precision,
    model_calls,
    modules,
    open_ties,
    operators,
    placement,
    process_settings,
    second_results,
    tensor_relations,
    traffic,
)
from .live_task import WITHOUT_GRADIENTS, LiveCase, LiveTask, plain_values_text
from .module_watch import ModuleWatch
from .task_file import TaskProblem

# calls by which is found what a reference updates, if it updates anything in the first ones: an
# average may begin after some steps, or be brought up to date in every eighth one
LATER_CALLS, LATER_SECONDS = 64, 1.0
# Inputs have another seed than the constructor: what that draws would equal the first inputs, and a
# buffer that keeps the latest ones would seem unchanged.
INPUTS_SEED_OFFSET = 1 << 20


def describe(task: LiveTask, name: str, seed: int) -> dict[str, Any]:
    """Construct one case's model, call it, and keep the case. Returns layouts, state, operators and
    counts. Raises TaskProblem where the task cannot be judged."""
    import torch

    spec, init, model = task.construct(name, seed)
    _refuse_unusual_state(task, model)
    settings = process_settings.modes()
    watch = ModuleWatch(model)
    first = seed + INPUTS_SEED_OFFSET
    with task.all_threads():
        sample = task.draw(spec, first)
        task.plan(sample, "get_inputs")
        _refuse_shared_inputs(task, sample)
        init_layout = task.plan(init, "get_init_inputs")
        inputs, roots = placement.move(sample, task.device), {}
        if task.file.gradients:
            roots = task.attempt(lambda: model_calls.roots(model, inputs))
        upstream = list(roots)
        shapes = [(list(o.shape), o.dtype) for o in roots.values()]

        arguments = [*sample, *families.upstream(shapes, first, task.draw_device)]
        begins = tensor_relations.begins(arguments) if placement.is_host(task.device) else ()
        layout = plan_layout(arguments, begins)
        inputs = placement.move(arguments, task.device)
        call = model_calls.forward(model, upstream)
        calls = _call_twice(task, call, inputs, watch)
        if watch.updated() or watch.changed_attributes():
            fresh = model_calls.forward(task.construct_again(init, seed, model), upstream)
            others = [
                *task.draw(spec, first + 1),
                *families.upstream(shapes, first + 1, task.draw_device),
            ]
            others = placement.move(others, task.device)
            carried_on = earlier_calls.carried_on(task, watch, call, fresh, others)
            # once more: a largest value so far, say, may not show with the other inputs
            if not tensor_relations.all_close(calls.first, task.attempt(lambda: call(inputs))):
                raise earlier_calls.problem(task, watch)
            modules.make_persistent(model, carried_on)
        state = modules.state(model)
        initial = initial_state(model)
        reads = traffic.Reads([*tensors_of(inputs), *state.values()])
        with torch.no_grad(), reads:
            returned = model(*inputs[: len(sample)])
        outputs = {
            **dense_layout(plan_layout(calls.first)),
            "form": model_calls.form_of(returned),
        }
        precise, doubled = high_precision.precise_model(model, upstream, inputs)
        wide = high_precision.to_double(inputs) if doubled else inputs
        counts = calls.recorder.counts()
        discrete = not all(dtypes.rounds(t.dtype) for t in calls.first)
        decides = certainties.decides(counts, discrete=discrete)
        roundoff = (
            certainties.unit(
                call, inputs, model_calls.forward(precise, upstream), wide, rounding=not decides
            )
            if decides or certainties.casts(counts)
            else 0.0
        )
        counted = counted_outputs.find(call, inputs) if roundoff else []
        results = len(model_calls.flatten(returned))
        orders = (
            open_ties.find(call, inputs, calls.first) if operators.leaves_ties_open(counts) else []
        )
        second = (
            second_results.kind_for(
                model_calls.forward(precise, upstream),
                wide,
                calls.first,
                pointwise=calls.recorder.pointwise,
                solving=doubled and second_results.solves(counts),
            )
            if upstream or not operators.is_exact(counts)
            else ""
        )
        live = task.cases[name] = LiveCase(
            spec,
            model,
            precise,
            init,
            initial,
            outputs,
            doubled,
            upstream,
            tensor_relations.specs(sample),
            tensor_relations.memory(calls.first, calls.again),
            plain_values_text(layout),
            calls.looks,
            begins,
            second,
        )
        if upstream:
            task.cases[name + WITHOUT_GRADIENTS] = live.without_gradients(results)
        changes = process_settings.changed_by(lambda: call(inputs), settings)
        if watch.updated():  # perhaps more in later calls
            end = time.monotonic() + LATER_SECONDS
            for number in range(LATER_CALLS):
                drawn = [
                    *task.draw(spec, first + 2 + number),
                    *families.upstream(shapes, first + 2 + number, task.draw_device),
                ]
                task.attempt(partial(call, placement.move(drawn, task.device)))
                if time.monotonic() > end:
                    break
    elementwise = sum(
        elements for op, (_, elements, _) in counts.items() if not operators.is_free(op)
    )
    return {
        "inputs": layout,
        "init": init_layout,
        "outputs": outputs,
        "state": {
            k: [list(v.shape), str(v.dtype).removeprefix("torch.")] for k, v in state.items()
        },
        "state_layout": plan_layout(list(initial.values())),
        "updated": [name for name in watch.updated() if name in state],
        "aliases": list(range(len(calls.first)))
        if calls.looks
        else tensor_relations.aliases(calls.first, inputs),
        "operators": {k: v[0] for k, v in counts.items()},
        "operations": float(calls.flops + elementwise),
        "bytes_read": reads.nbytes,
        "doubled": doubled,
        "results": results,
        "held_bytes": tensor_relations.held_bytes(calls.first, inputs),
        "call_s": calls.seconds,
        "upstream": upstream,
        "trained": list(model_calls.trained_parameters(model)) if upstream else [],
        "terms": calls.recorder.terms,
        "workspace_bytes": max(calls.recorder.largest_bytes, calls.recorder.filled_bytes),
        "pointwise": calls.recorder.pointwise,
        "roundoff": roundoff,
        "counted": counted,
        "second": second,
        "orders": orders,
        "changes": changes,
    }


def graph(task: LiveTask, case: LiveCase, seed: int) -> list[list[Any]]:
    """Return the data-flow graph of a described case, see `dataflow.graph`."""
    upstream = task.draw_upstream(case, seed)
    with task.all_threads():
        inputs = placement.move([*task.draw(case.spec, seed), *upstream], task.device)
        return dataflow.graph(model_calls.forward(case.model, case.upstream), inputs)


def initial_state(model: Any) -> dict[str, Any]:
    """Return the parameters and buffers as constructed, on the host."""
    return {k: v.detach().cpu().clone() for k, v in modules.state(model).items()}


def _refuse_unusual_state(task: LiveTask, model: Any) -> None:
    """Refuse parameters and buffers that have no plain values: a candidate gets copies of these."""
    import torch

    for name, value in modules.state(model).items():
        if torch.nn.parameter.is_lazy(value):
            raise TaskProblem(
                f"{task.lines.at(*FORWARD)}: {name} has no shape before the first call; use the "
                "module that is not lazy"
            )
        kind = "quantized" if value.is_quantized else str(value.layout).removeprefix("torch.")
        if kind != "strided":
            raise TaskProblem(
                f"{task.lines.at(*FORWARD)}: {name} is a {kind} tensor; parameters and buffers "
                "must be dense and plain: keep the integers and the scale, or the indices and the "
                "values, as buffers of their own"
            )


def _refuse_shared_inputs(task: LiveTask, inputs: list[Any]) -> None:
    """Raise TaskProblem where two inputs share memory: each gets its own memory when it is passed
    to a worker, and a kernel may behave differently when it gets the same tensor twice."""
    places = [t.data_ptr() for t in tensors_of(inputs) if t.numel()]
    if len(set(places)) < len(places):
        raise TaskProblem(
            f"{task.lines.at('get_inputs')}: get_inputs(): two inputs begin in the same memory; "
            "give each its own memory (clone one)"
        )


@dataclass(frozen=True)
class _CallPair:
    """The outputs of two calls with equal inputs, the first of which are held, and the counts.
    looks: whether the model reads values of tensors in Python. seconds: of the second call; on the
    host converted to one core."""

    first: list[Any]
    again: list[Any]
    recorder: operators.Recorder
    looks: bool
    flops: int
    seconds: float


def _structure_text(inputs: Any) -> str:
    """Return everything in the arguments besides tensors, as text; "" where a call has left values
    in them that cannot be sent to a worker."""
    try:
        return repr(plain_values(plan_layout(inputs)))
    except TypeError:
        return ""


def _call_twice(
    task: LiveTask, call: earlier_calls.Call, inputs: Any, watch: ModuleWatch
) -> _CallPair:
    """Call the reference twice. Raises TaskProblem if it returns nothing or what cannot be
    compared, writes to its inputs, or is not deterministic."""
    recorder, exports = operators.Recorder(), operators.ExportRecorder()
    before = [t.clone() for t in tensors_of(inputs)]
    structure = _structure_text(inputs)
    with recorder, exports:
        first = task.attempt(lambda: call(inputs))
    if not first:
        raise TaskProblem(
            f"{task.lines.at(*FORWARD)}: forward returns no tensor; at least one output tensor "
            "is needed to judge a candidate"
        )
    for number, output in enumerate(first):
        if reason := dtypes.objection(output.dtype):
            raise TaskProblem(f"{task.lines.at(*FORWARD)}: output {number}: {reason}")
    if _structure_text(inputs) != structure or any(
        not tensor_relations.same(a, b) for a, b in zip(before, tensors_of(inputs), strict=True)
    ):
        raise TaskProblem(
            f"{task.lines.at(*FORWARD)}: forward changes its inputs in place; a task must not "
            "(clone them first, and return what callers need)"
        )
    began = time.perf_counter()
    again, flops = task.attempt(lambda: operators.call_counted(call, inputs))
    placement.finish(task.device)
    seconds = time.perf_counter() - began
    # counting decomposes some operators, which then round differently
    if not tensor_relations.all_close(first, again):
        again = task.attempt(lambda: call(inputs))
    if not tensor_relations.all_close(first, again):
        raise TaskProblem(
            f"{task.lines.at(*FORWARD)}: two calls with equal inputs differ; a reference must "
            "be deterministic (random numbers? dropout? call self.eval() in __init__)"
            + (
                f"; they change {names}: make it an input"
                if (names := earlier_calls.changed(watch))
                else ""
            )
        )
    cores = task.cpus if placement.is_host(task.device) else 1
    looks = recorder.looks or exports.exported
    return _CallPair(first, again, recorder, looks, flops, seconds * cores)
