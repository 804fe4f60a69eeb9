"""A task in the reference worker: its cases with their models, and the drawing of inputs."""

from __future__ import annotations

import contextlib
import copy
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..wire import dtypes
from ..wire.layouts import Layout, first_items, plan_layout
from ..wire.task_lines import CONSTRUCTOR, FORWARD
from . import (
    families,
    model_calls,
    modules,
    placement,
    second_results,
    task_file,
    tensor_relations,
)
from .task_file import CaseSpec, TaskFile, TaskProblem

CALL = "Model(*get_init_inputs())(*get_inputs())"
# what is added to the name of a case with gradients where it is called without recording them
WITHOUT_GRADIENTS = ", without gradients"


@dataclass
class LiveCase:
    """One case with its model in the working dtype and in double precision.

    upstream: the outputs from which gradients flow back. specs: of the inputs. memory: see
    tensor_relations.memory; valid for the inputs besides tensors that `values` describes, unless
    `looks`. looks: the model reads values of tensors in Python. begins: the byte of a line of
    memory at which each input begins. second: see second_results.
    """

    spec: CaseSpec
    model: Callable[..., Any]
    precise: Callable[..., Any]
    init: Any
    initial_state: dict[str, Any]
    outputs: Layout
    # False where the reference cannot run in float64; its own dtype is then used
    doubled: bool
    upstream: Sequence[int] = ()
    specs: list[Any] = field(default_factory=list)
    memory: dict[str, list[int]] = field(default_factory=dict)
    values: str = ""
    looks: bool = False
    begins: Sequence[int] = ()
    second: second_results.Kind = ""

    def without_gradients(self, results: int) -> LiveCase:
        """Return the case, with the same models, as it is called without recording gradients."""
        return replace(self, upstream=(), outputs=first_items(self.outputs, results))

    def set_state(self, values: list[Any]) -> None:
        """Set the parameters of both models, on their device."""
        modules.copy_state(modules.state(self.model), values)
        modules.copy_state(modules.state(self.precise), values)


class LiveTask:
    """A loaded task on a device. cpus: the cores for preparation; timing uses one. cases: those
    constructed so far, by name. draw_device: where inputs are drawn."""

    def __init__(self, file: TaskFile, device: str, cpus: int) -> None:
        self.file, self.lines, self.device, self.cpus = file, file.lines, device, cpus
        self.cases: dict[str, LiveCase] = {}
        self.draw_device = placement.HOST
        self._threads_are_used = False

    def construct(self, name: str, seed: int) -> tuple[CaseSpec, Any, Any]:
        """Return a case, the arguments of its constructor, and its new model on the device."""
        spec = self._spec(name)
        with self.all_threads():
            init = self.file.init_inputs(spec)
            model = task_file.attempt(
                lambda: modules.construct(
                    self.file.module, modules.TASK, copy.deepcopy(init), seed
                ),
                "Model(*get_init_inputs())",
                self.lines,
                *CONSTRUCTOR,
            )
        return spec, init, model.to(self.device) if hasattr(model, "to") else model

    def construct_again(self, init: Any, seed: int, model: Any) -> Any:
        """Return another model like one that was constructed with these arguments and this seed,
        and called since: with its parameters, in case these were drawn otherwise."""
        again = modules.construct(self.file.module, modules.TASK, copy.deepcopy(init), seed)
        if hasattr(again, "to"):
            again = again.to(self.device)
            parameters = dict(again.named_parameters())
            modules.copy_state(parameters, [dict(model.named_parameters())[n] for n in parameters])
        return again

    def baseline(self, case: LiveCase, name: str) -> tuple[Any, dict[str, Any]]:
        """Return a baseline's model, and its own tensors that take the reference's state, {} where
        it shares the reference's."""
        import torch

        if name == "eager":
            return case.model, {}
        if name == "compile":
            torch._dynamo.config.cache_size_limit = 256
            return torch.compile(case.model, dynamic=False), {}
        init = copy.deepcopy(case.init)
        build = self.file.baselines[name]
        what = f"BASELINES[{name!r}]"
        anchors = (self.lines, what, "BASELINES")
        model = task_file.attempt(
            lambda: build(**init) if isinstance(init, dict) else build(*init), what, *anchors
        )
        state = {
            k: (list(v.shape), str(v.dtype).removeprefix("torch."))
            for k, v in case.initial_state.items()
        }
        targets = task_file.attempt(lambda: modules.match_state(state, model), what, *anchors)
        modules.copy_state(targets, [modules.state(case.model)[k] for k in state])
        if hasattr(model, "to"):
            model = model.to(self.device)
            targets = modules.match_state(state, model)
        return model, targets

    def is_finite(self, case: LiveCase, seed: int) -> bool:
        """Return whether the reference gives finite results with its present parameters."""
        inputs = placement.move(self.draw(case.spec, seed), self.device)
        try:
            outputs = model_calls.forward(case.model, ())(inputs)
            return all(bool(dtypes.comparable(t).isfinite().all()) for t in outputs)
        except Exception:  # the task's own code may not expect permuted integers in its state
            return False

    def draw(self, spec: CaseSpec, seed: int) -> list[Any]:
        """Return the inputs that get_inputs gives for a case with a seed."""
        import torch

        if placement.is_host(self.device):
            # torch.manual_seed notes a stack for each kind of device that is not in use, which
            # takes longer than drawing a small set
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)
        random.seed(seed)
        # a task may draw with numpy, which torch loads where it is installed
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(seed % (1 << 32))
        if placement.is_host(self.draw_device):
            return list(placement.move(self.file.inputs(spec), "cpu"))  # sent as bytes
        with torch.device(self.draw_device):
            return list(placement.move(self.file.inputs(spec), self.draw_device))

    def draw_upstream(self, case: LiveCase, seed: int) -> list[Any]:
        """Draw gradients with respect to the outputs from which gradients flow back."""
        import torch

        roots = [case.outputs["leaves"][number] for number in case.upstream]
        return families.upstream(
            [(leaf["shape"], getattr(torch, leaf["dtype"])) for leaf in roots],
            seed,
            self.draw_device,
        )

    def draws_on_device(self, name: str, seed: int) -> bool:
        """Return whether get_inputs gives the same shapes and layouts with the device as torch's
        default; it cannot if, for example, it uses a generator of the host. The host's result is
        found with tensors without data where the task allows it: drawing 8 GiB takes 20 s."""
        import torch

        spec, specs = self._spec(name), tensor_relations.specs
        try:
            with torch.device(self.device):
                on_device = specs(placement.move(self.file.inputs(spec), self.device))
            try:
                with torch.device("meta"):
                    on_host = specs(self.file.inputs(spec))
            except Exception:  # the task looks at values
                on_host = specs(self.draw(spec, seed))
        except Exception:  # the task's own code; the draw on the host reports what is wrong
            return False
        return on_device == on_host

    def plan(self, value: Any, function: str, begins: Sequence[int] = ()) -> Layout:
        """Lay out the result of a task's function. begins: see plan_layout. Raises TaskProblem."""
        try:
            return plan_layout(value, begins)
        except TypeError as error:
            raise TaskProblem(
                f"{self.lines.at(function)}: {function}() cannot return this: {error}"
            ) from error

    def attempt(self, action: Callable[[], Any], what: str = CALL) -> Any:
        """Run a call of the model. Raises TaskProblem for what it raises."""
        return task_file.attempt(action, what, self.lines, *FORWARD)

    @contextlib.contextmanager
    def all_threads(self) -> Iterator[None]:
        """Use every core inside the block, for preparation; timing never does."""
        import torch

        if self._threads_are_used:
            torch.set_num_threads(self.cpus)
        else:
            placement.use_threads(self.cpus)
            self._threads_are_used = True
        try:
            yield
        finally:
            torch.set_num_threads(1)

    def _spec(self, name: str) -> CaseSpec:
        return next(c for c in self.file.cases if c.name == name)


def plain_values_text(layout: Layout) -> str:
    """Return the inputs besides tensors as text, in which True differs from 1."""
    return repr([leaf["value"] for leaf in layout["leaves"] if "value" in leaf])
