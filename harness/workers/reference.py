"""The reference worker: imports the task, makes inputs and high-precision results, runs the
baselines. Confined and long-lived.

The judge accepts its statements about the task, since the task's author decides what is right. It
has no other influence on the judge.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import socket
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from ..wire import buffers, memory_files
from ..wire.layouts import Layout, plan_layout
from ..wire.slack import Slack
from ..wire.task_lines import Lines
from . import (
    case_description,
    high_precision,
    host,
    left_state,
    model_calls,
    modules,
    parameter_states,
    placement,
    second_results,
    set_drawing,
    task_file,
)
from .live_task import LiveCase, LiveTask
from .prepared_model import PreparedModel
from .set_drawing import SetOrder
from .task_folder import TaskNeighbours
from .task_process import LossyLog, TaskSteps, settle

CACHE_BYTES = 4 << 30  # of a device's memory that the allocator may keep unused
SMALL_BYTES = 1 << 20  # below this a second thread costs more than it saves


class ReferenceHost(host.Host):
    """The commands of the reference worker besides those of every host."""

    task: LiveTask
    steps: TaskSteps

    def on_open(
        self,
        fds: list[int],
        filename: str,
        held_out_name: str,
        folder: str,
        search_path: str,
        seed: int,
        cpus: int,
        device: str,
        patience_s: float,
        neighbours: dict[str, str] | None,
    ) -> dict[str, Any]:
        """Load the task and return its declared cases and options.

        Descriptors: the task's text; its held-out companion; a file for the stack of a crash or of
        a step that takes longer than `patience_s`; what an earlier process compiled. All but the
        first may be empty. folder: the task's, "" if it shall not be visible. search_path: of
        programs, for inductor's compiler. neighbours: the files that another process with this task
        loaded from its folder, to be compared with this one's; None in the first process.
        """
        import torch

        stack = os.dup(fds[2])
        faulthandler.enable(stack)
        settle(folder, search_path, fds[3])
        torch.set_num_threads(1)
        self._neighbours = TaskNeighbours(folder, (filename, held_out_name))
        if neighbours is None:
            self._neighbours.watch()
        text, held_out = (memory_files.read_all(fd).decode() for fd in fds[:2])
        self.steps = TaskSteps(stack, patience_s, self._neighbours, Lines(text, filename))
        file = self.steps.run(lambda: task_file.read(text, filename, held_out, held_out_name, seed))
        self.task = LiveTask(file, device, cpus)
        return {
            "cases": [
                {
                    "name": c.name,
                    "arguments": c.arguments,
                    "weight": c.weight,
                    "protected": c.protected,
                    "held_out": c.held_out,
                }
                for c in file.cases
            ],
            "tolerance": file.tolerance,
            "gradients": file.gradients,
            "baselines": list(file.baselines),
            "neighbours": {} if neighbours is None else self._neighbours.pin(neighbours),
        }

    def on_neighbours(self, fds: list[int]) -> dict[str, str]:
        """Return names and digests of the files that the task has loaded from its folder. From now
        on it may load no others."""
        return self.steps.run(self._neighbours.pin)  # type: ignore[no-any-return]

    def on_describe(self, fds: list[int], case: str, seed: int) -> dict[str, Any]:
        """Construct one case's model and describe it, see case_description.describe."""
        task = self.task
        # inputs are drawn on the device if the judge shares its memory and the task allows it
        if self.window is not None and placement.is_host(task.draw_device):
            task.draw_device = task.device if task.draws_on_device(case, seed) else placement.HOST
        description: dict[str, Any] = self.steps.run(
            lambda: case_description.describe(task, case, seed)
        )
        self._complete()
        return description

    def on_construct(
        self,
        fds: list[int],
        case: str,
        seed: int,
        outputs: Layout,
        doubled: bool,
        upstream: list[int],
        updated: list[str],
        second: second_results.Kind,
    ) -> None:
        """Construct one case's model as another process did that described it with this seed. The
        other arguments come from its description."""

        def construct() -> None:
            spec, init, model = self.task.construct(case, seed)
            modules.make_persistent(model, updated)
            self.task.cases[case] = LiveCase(
                spec,
                model,
                high_precision.double_model(model) if doubled else model,
                init,
                case_description.initial_state(model),
                outputs,
                doubled,
                upstream,
                second=second,
            )

        self.steps.run(construct)

    def on_graph(self, fds: list[int], case: str, seed: int) -> dict[str, Any]:
        """Return a described case's graph, see `dataflow.graph`; an empty one and the reason where
        it cannot be decomposed."""
        try:
            graph = case_description.graph(self.task, self.task.cases[case], seed)
            return {"graph": graph, "problem": ""}
        # an error of the task or of the framework; the task can be judged without a graph
        except Exception as error:
            reason = str(error).splitlines()[0][:200] if str(error) else "no reason given"
            return {"graph": [], "problem": f"{type(error).__name__}: {reason}"}

    def on_init(self, fds: list[int], case: str) -> None:
        """Write the init inputs' tensors."""
        init = self.task.cases[case].init
        buffers.write(fds[0], plan_layout(init), init)

    def on_set_state(self, fds: list[int], case: str, seed: int) -> None:
        """Set the parameters (seed 0: as constructed; else see parameter_states). With a
        descriptor, also write them to it."""
        live = self.task.cases[case]
        initial = live.initial_state
        values = (
            parameter_states.values(
                initial, seed, self.task.device, parameter_states.masks(initial, live.model)
            )
            if seed
            else list(initial.values())
        )
        if any(
            new is not old and not _continuous(old)
            for new, old in zip(values, initial.values(), strict=True)
        ):
            self._set_state(case, values)
            if not self.task.is_finite(live, seed):
                values = [
                    new if _continuous(old) else old
                    for new, old in zip(values, initial.values(), strict=True)
                ]
        self._set_state(case, values)
        if fds:
            buffers.write(fds[0], plan_layout(values), values)

    def on_take_state(self, fds: list[int], case: str) -> None:
        """Set the parameters to those that another process has written."""
        layout = plan_layout(list(self.task.cases[case].initial_state.values()))
        self._set_state(case, list(buffers.read(fds[0], layout)))

    def on_left_state(
        self,
        fds: list[int],
        case: str,
        seeds: list[int],
        families: list[str],
        names: list[str],
        counts: list[int],
        renewed: Layout | None = None,
        evaluating: bool = False,
    ) -> dict[str, Any]:
        """Write these parameters and buffers as calls on the sets of these seeds and families, one
        after another, leave them after each of `counts` calls. Descriptors: files for them in high
        precision, in the framework's own dtype, and in high precision from moved numbers, see
        left_state. renewed: the layout of a last file, with the values that they begin with.
        evaluating: whether the calls are made in evaluation mode."""
        values = list(buffers.read(fds[-1], renewed)) if renewed is not None else []
        write = set_drawing.writers(fds[:-1] if renewed is not None else fds, ())
        orders = [SetOrder(case, *each) for each in zip(seeds, families, strict=True)]
        return self.steps.run(  # type: ignore[no-any-return]
            lambda: left_state.write_left(
                self.task, write, orders, names, counts, values, evaluating=evaluating
            )
        )

    def on_works_with(
        self,
        fds: list[int],
        case: str,
        seeds: list[int],
        families: list[str],
        names: list[str],
        layout: Layout,
    ) -> bool:
        """Return whether the reference works with other values of these parameters and buffers, see
        left_state. Descriptor: a file with the values."""
        values = list(buffers.read(fds[0], layout))
        orders = [SetOrder(case, *each) for each in zip(seeds, families, strict=True)]
        found: bool = self.steps.run(
            lambda: left_state.works_with(self.task, orders, names, values)
        )
        self._complete()
        return found

    def on_ignores_modes(
        self, fds: list[int], case: str, seeds: list[int], families: list[str]
    ) -> bool:
        """Return whether calls of the reference on these sets return the same in evaluation
        mode."""
        orders = [SetOrder(case, *each) for each in zip(seeds, families, strict=True)]
        found: bool = self.steps.run(lambda: left_state.ignores_modes(self.task, orders))
        self._complete()
        return found

    def on_make_set(
        self,
        fds: list[int],
        case: str,
        seed: int,
        family: str,
        slack: dict[str, Any] | None,
        sampled: bool,
        replaced: bool,
        sizes: Sequence[int] = (),
    ) -> dict[str, Any]:
        """Draw one input set and its expected outputs, in float64 where they are floating.
        Descriptors: inputs, expected outputs, the framework's own outputs; for a case with second
        results (see second_results) these; with slack in rounding to whole numbers the alternatives
        (see rounding.compute_alternatives). sampled, replaced: see sampled_results. sizes: in
        bytes, if the descriptors are of device memory."""
        write = set_drawing.writers(fds, sizes)
        order = SetOrder(case, seed, family, Slack(**slack) if slack else None)
        description: dict[str, Any] = self.steps.run(
            lambda: set_drawing.make_set(
                self.task, write, order, sampled=sampled, replaced=replaced
            )
        )
        self._complete()
        return description

    def on_make_group(
        self,
        fds: list[int],
        case: str,
        seeds: list[int],
        families: list[str],
        slacks: list[dict[str, Any] | None],
        stride: int,
        slot_bytes: int,
        framework: list[int],
        sizes: Sequence[int] = (),
    ) -> None:
        """Draw input sets, `stride` bytes apart, and their expected outputs, rounded to the
        outputs' dtypes, in slots. Each set has a seed, a family and a slack. Descriptors: inputs,
        expected outputs, the framework's own outputs with the indices in `framework` (if any), the
        alternatives as in `on_make_set`, and a file for a JSON description of each set: its layout,
        and where the reference's outputs lie. sizes: as in `on_make_set`."""
        write = set_drawing.writers(fds[:-1], sizes)

        def make(number: int) -> dict[str, Any]:
            slack = slacks[number]
            order = SetOrder(
                case, seeds[number], families[number], Slack(**slack) if slack else None
            )
            bases = number * stride, number * slot_bytes
            return set_drawing.make_group_set(self.task, write, order, *bases, framework)

        large = stride + slot_bytes > SMALL_BYTES
        with self.task.all_threads() if large else contextlib.nullcontext():
            descriptions = [self.steps.run(partial(make, n)) for n in range(len(seeds))]
        os.pwrite(fds[-1], json.dumps(descriptions).encode(), 0)
        self._complete()

    def on_baseline(
        self, fds: list[int], case: str, name: str, slots: int, slot_bytes: int
    ) -> None:
        """Prepare a baseline of a case under the key "case/name". Descriptor: the output slots,
        unless the judge reads outputs in place."""

        def prepare() -> None:
            live = self.task.cases[case]
            model, targets = self.task.baseline(live, name)
            # the user is responsible for the other baselines
            form = live.outputs["form"] if name in ("eager", "compile") else ""
            trained = model_calls.trained_parameters(live.model) if live.upstream else {}
            parameters = [targets[name] for name in trained] if targets else None
            call = model_calls.forward(model, live.upstream, form, parameters)
            memory = memory_files.map_shared(fds[0], slots * slot_bytes) if fds else None
            self.prepared[f"{case}/{name}"] = PreparedModel(
                call, live.outputs, memory, slot_bytes, self.task.device, targets
            )

        self.steps.run(prepare)

    # ---- behind the commands ---------------------------------------------------------------------

    def _set_state(self, case: str, values: list[Any]) -> None:
        self.task.cases[case].set_state(values)
        for key, prepared in self.prepared.items():
            if key.startswith(f"{case}/") and prepared.targets:
                modules.copy_state(prepared.targets, values)

    def _complete(self) -> None:
        """Wait until everything written is visible to other processes, and release the memory that
        computing it took. Call it once nothing refers to that memory."""
        if self.window is not None:
            import torch

            torch.cuda.synchronize()
            if torch.cuda.memory_reserved() > CACHE_BYTES:
                gc.collect()  # memory in reference cycles counts as used
            if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > CACHE_BYTES:
                torch.cuda.empty_cache()  # judge, baselines and candidates need memory as well


def _continuous(value: Any) -> bool:
    return bool(value.is_floating_point() or value.is_complex())


def serve(sock: socket.socket, text_fd: int) -> None:
    """Entry of the forked, confined child."""
    sys.stdout = sys.stderr = LossyLog()
    ReferenceHost(sock, text_fd).serve()
