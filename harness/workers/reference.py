"""The reference worker: imports the task, makes inputs and high-precision results, runs the
baselines. Confined, long-lived.

What it says about the task is the task's own word: its author decides what is right. It can do
nothing else to the judge.
"""

from __future__ import annotations

import contextlib
import copy
import faulthandler
import gc
import io
import json
import os
import random
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..wire import buffers, device_memory, memory_files
from ..wire.layouts import Layout, dense_layout, plan_layout
from ..wire.nesting import tensors_of
from ..wire.task_lines import CONSTRUCTOR, FORWARD, Lines
from . import (
    compile_cache,
    dataflow,
    families,
    high_precision,
    host,
    model_calls,
    modules,
    operators,
    parameter_states,
    placement,
    rounding,
    task_file,
    tensor_relations,
    traffic,
)
from .live_case import LiveCase, values_of
from .prepared_model import PreparedModel
from .task_file import CaseSpec, TaskFile, TaskProblem
from .task_folder import TaskNeighbours

KEPT_BYTES = 4 << 30  # of a device's memory, that the allocator may keep for later
SMALL_BYTES = 1 << 20  # below it a second thread costs more than it saves
_CALL = "Model(*get_init_inputs())(*get_inputs())"
_Write = Callable[..., None]  # layout, tensors, where to begin


class ReferenceHost(host.Host):
    """Commands of the reference worker, besides those of every host."""

    _settled = False  # whether its threads have made a first call
    # where inputs are drawn: on the device, if that is shared with the judge and the task bears it
    _drawn_on = "cpu"
    file: TaskFile
    live: dict[str, LiveCase]
    lines: Lines

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
        known: dict[str, str] | None,
    ) -> dict[str, Any]:
        """Load the task and learn the declared cases and options.

        Descriptors: the text; its held-out companion; where the stack of a crash goes, or of a step
        that takes longer than `patience_s`; what an earlier process compiled. All but the first may
        be empty. folder: the task's, "" where it is not to be seen. search_path: of programs, for
        inductor's compiler. known: what another process with this task took from its folder, for
        one that is compared with it; None for one that learns it.
        """
        import torch

        self._cpus, self._device, self._patience_s = cpus, device, patience_s
        self._stack = os.dup(fds[2])
        faulthandler.enable(self._stack)
        _settle(folder, search_path, fds[3])
        torch.set_num_threads(1)
        self._neighbours = TaskNeighbours(folder, (filename, held_out_name))
        if known is None:
            self._neighbours.watch()
        text, held_out = (memory_files.read_all(fd).decode() for fd in fds[:2])
        self.lines = Lines(text, filename)
        self.file = self._problem(
            lambda: task_file.read(text, filename, held_out, held_out_name, seed)
        )
        self.live = {}
        return {
            "cases": [
                {
                    "name": c.name,
                    "arguments": c.arguments,
                    "weight": c.weight,
                    "protected": c.protected,
                    "held_out": c.held_out,
                }
                for c in self.file.cases
            ],
            "tolerance": self.file.tolerance,
            "gradients": self.file.gradients,
            "baselines": list(self.file.baselines),
            "neighbours": {} if known is None else self._neighbours.pin(known),
        }

    def on_neighbours(self, fds: list[int]) -> dict[str, str]:
        """What the task took from its folder so far: names and digests. It may take nothing else
        from now on."""
        return self._problem(self._neighbours.pin)  # type: ignore[no-any-return]

    def on_describe(self, fds: list[int], case: str, seed: int) -> dict[str, Any]:
        """Construct one case's model and run it once: layouts, state, operators, counts."""
        if self.window is not None and placement.is_host(self._drawn_on):
            self._drawn_on = self._device if self._draws_on_device(case, seed) else "cpu"
        found: dict[str, Any] = self._problem(lambda: self._describe(case, seed))
        self._complete()
        return found

    def on_construct(
        self,
        fds: list[int],
        case: str,
        seed: int,
        outputs: Layout,
        doubled: bool,
        upstream: list[int],
    ) -> None:
        """Construct one case's model as another process has, which described it with this seed: the
        rest is what it answered."""

        def construct() -> None:
            spec, init, model = self._model(case, seed)
            kept = {k: v.detach().cpu().clone() for k, v in modules.state(model).items()}
            self.live[case] = LiveCase(
                spec,
                model,
                high_precision.double(model) if doubled else model,
                init,
                kept,
                outputs,
                doubled,
                upstream,
            )

        self._problem(construct)

    def on_graph(self, fds: list[int], case: str, seed: int) -> dict[str, Any]:
        """What a described case computes, as `dataflow.graph` has it; none, and why, where it does
        not bear to be taken apart."""
        try:
            return {"graph": self._graph(self.live[case], seed), "problem": ""}
        # of the task or of the framework; the task can be judged without
        except Exception as error:
            return {
                "graph": [],
                "problem": (
                    f"{type(error).__name__}: "
                    f"{str(error).splitlines()[0][:200] if str(error) else 'no reason given'}"
                ),
            }

    def on_init(self, fds: list[int], case: str) -> None:
        """Write the init inputs' tensors."""
        init = self.live[case].init
        buffers.write(fds[0], plan_layout(init), init)

    def on_set_state(self, fds: list[int], case: str, seed: int) -> None:
        """Set the parameters (seed 0: as constructed; else see parameter_states) and write them,
        with a descriptor."""
        live = self.live[case]
        before = live.initial_state
        values = (
            parameter_states.values(before, seed, self._device) if seed else list(before.values())
        )
        if any(
            new is not old and not _continuous(old)
            for new, old in zip(values, before.values(), strict=True)
        ):
            self._take(case, values)
            if not self._bears(live, seed):
                values = [
                    new if _continuous(old) else old
                    for new, old in zip(values, before.values(), strict=True)
                ]
        self._take(case, values)
        if fds:
            buffers.write(fds[0], plan_layout(values), values)

    def on_take_state(self, fds: list[int], case: str) -> None:
        """Set the parameters to what another process has written."""
        layout = plan_layout(list(self.live[case].initial_state.values()))
        self._take(case, list(buffers.read(fds[0], layout)))

    def on_make_set(
        self,
        fds: list[int],
        case: str,
        seed: int,
        family: str,
        slack: float,
        sizes: Sequence[int] = (),
    ) -> dict[str, Any]:
        """Draw one input set, and its expected outputs in float64 where they are floating.
        Descriptors: inputs, expected, the framework's own result, and where there is slack in what
        is rounded to whole numbers (see rounding.turned) what that leads to. sizes: of memory on
        the device, where they are that, in bytes."""
        write, known = _writers(fds, sizes), (case, seed, family, slack)
        made: dict[str, Any] = self._problem(lambda: self._make_set(write, *known))
        self._complete()
        return made

    def on_make_group(
        self,
        fds: list[int],
        case: str,
        seeds: list[int],
        families: list[str],
        slacks: list[float],
        stride: int,
        slot_bytes: int,
        framework: list[int],
        sizes: Sequence[int] = (),
    ) -> None:
        """Draw input sets, a seed, a family and a slack each, `stride` bytes apart, and their
        expected outputs, rounded to the outputs' dtypes, in slots of their own. Descriptors:
        inputs, expected, the framework's own of the outputs numbered `framework`, if any, the last
        ones of `on_make_set`, and a file for what is told of each set as JSON: its layout, and
        where the reference's outputs lie; sizes: as there."""
        write = _writers(fds[:-1], sizes)

        def one(number: int) -> dict[str, Any]:
            bases = number * stride, number * slot_bytes
            known = case, seeds[number], families[number], slacks[number]
            return self._make_one(write, *known, *bases, framework)

        with self._all_threads() if stride + slot_bytes > SMALL_BYTES else contextlib.nullcontext():
            made = [self._problem(partial(one, number)) for number in range(len(seeds))]
        os.pwrite(fds[-1], json.dumps(made).encode(), 0)
        self._complete()

    def on_baseline(
        self, fds: list[int], case: str, name: str, slots: int, slot_bytes: int
    ) -> None:
        """Prepare a baseline of a case under the key "case/name". Descriptor: output slots, unless
        outputs are shown where they lie."""
        self._problem(lambda: self._baseline(fds, case, name, slots, slot_bytes))

    # ---- behind the commands ---------------------------------------------------------------------

    def _bears(self, live: LiveCase, seed: int) -> bool:
        """Whether the reference gives finite results with the parameters that it has now."""
        inputs = placement.move(self._draw(live.spec, seed), self._device)
        try:
            return all(
                bool(t.isfinite().all()) for t in model_calls.forward(live.model, ())(inputs)
            )
        except Exception:  # the task's own code, with integers in places that it may not expect
            return False

    def _draws_on_device(self, case: str, seed: int) -> bool:
        """Whether get_inputs can be called with the device as its default: a task may have a
        generator of the host's. What it gives on the host is known without drawing where it bears
        tensors that hold nothing: a host takes 20 s for 8 GiB."""
        import torch

        spec = next(c for c in self.file.cases if c.name == case)
        try:
            with torch.device(self._device):
                found = tensor_relations.specs(placement.move(self.file.inputs(spec), self._device))
            try:
                with torch.device("meta"):
                    wanted = tensor_relations.specs(self.file.inputs(spec))
            except Exception:  # the task looks at values
                wanted = tensor_relations.specs(self._draw(spec, seed))
        except Exception:  # the task's own code; on the host it will say what is wrong
            return False
        return found == wanted

    def _take(self, case: str, values: list[Any]) -> None:
        live = self.live[case]
        # copies to the device where the model is
        modules.copy_state(modules.state(live.model), values)
        modules.copy_state(modules.state(live.precise), values)
        for key, prepared in self.prepared.items():
            if key.startswith(f"{case}/") and prepared.targets:
                modules.copy_state(prepared.targets, values)

    def _model(self, name: str, seed: int) -> tuple[CaseSpec, Any, Any]:
        """A case, the arguments of its constructor, and what they construct."""
        spec = next(c for c in self.file.cases if c.name == name)
        with self._all_threads():
            init = self.file.init_inputs(spec)
            model = task_file.attempt(
                lambda: modules.construct(
                    self.file.module, modules.TASK, copy.deepcopy(init), seed
                ),
                "Model(*get_init_inputs())",
                self.lines,
                *CONSTRUCTOR,
            )
        return spec, init, model.to(self._device) if hasattr(model, "to") else model

    def _describe(self, name: str, seed: int) -> dict[str, Any]:
        import torch

        lines = self.lines
        spec, init, model = self._model(name, seed)
        with self._all_threads():
            drawn = self._draw(spec, seed)
            self._plan(drawn, "get_inputs")
            init_layout = self._plan(init, "get_init_inputs")
            inputs, roots = placement.move(drawn, self._device), {}
            if self.file.gradients:
                roots = task_file.attempt(
                    lambda: model_calls.roots(model, inputs), _CALL, lines, *FORWARD
                )
            upstream = list(roots)
            given = [
                *drawn,
                *families.upstream(
                    [(list(o.shape), o.dtype) for o in roots.values()], seed, self._drawn_on
                ),
            ]
            layout = plan_layout(given)
            inputs = placement.move(given, self._device)
            call = model_calls.forward(model, upstream)
            recorder, giving = operators.Recorder(), operators.Giving()
            before = [t.clone() for t in tensors_of(inputs)]
            with recorder, giving:
                first = task_file.attempt(lambda: call(inputs), _CALL, lines, *FORWARD)
            if not first:
                raise TaskProblem(
                    f"{lines.at(*FORWARD)}: forward returns no tensor; at least one output tensor "
                    "is needed to judge a candidate"
                )
            if any(
                not tensor_relations.same(a, b)
                for a, b in zip(before, tensors_of(inputs), strict=True)
            ):
                raise TaskProblem(
                    f"{lines.at(*FORWARD)}: forward changes its inputs in place; a task must leave "
                    "them alone (clone first)"
                )
            began = time.perf_counter()
            again, flops = task_file.attempt(
                lambda: operators.counted(call, inputs), _CALL, lines, *FORWARD
            )
            placement.finish(self._device)
            call_s = (time.perf_counter() - began) * (
                self._cpus if placement.is_host(self._device) else 1
            )
            # who counts takes some operators apart, which round differently then
            if not tensor_relations.all_close(first, again):
                again = task_file.attempt(lambda: call(inputs), _CALL, lines, *FORWARD)
            if not tensor_relations.all_close(first, again):
                raise TaskProblem(
                    f"{lines.at(*FORWARD)}: two calls with equal inputs differ; a reference must "
                    "be deterministic (random numbers? dropout? call self.eval() in __init__)"
                )
            memory = tensor_relations.memory(first, again)
            kept = {k: v.detach().cpu().clone() for k, v in modules.state(model).items()}
            reads = traffic.Reads([*tensors_of(inputs), *modules.state(model).values()])
            with torch.no_grad(), reads:
                returned = model(*inputs[: len(drawn)])
            outputs = {**dense_layout(plan_layout(first)), "form": model_calls.form_of(returned)}
            state = {
                k: [list(v.shape), str(v.dtype).removeprefix("torch.")]
                for k, v in modules.state(model).items()
            }
            precise, doubled = high_precision.precise(model, upstream, inputs)
            wide = high_precision.doubled(inputs) if doubled else inputs
            roundoff = (
                rounding.unit(call, inputs, model_calls.forward(precise, upstream), wide)
                if rounding.among(recorder.counts())
                else 0.0
            )
            self.live[name] = LiveCase(
                spec,
                model,
                precise,
                init,
                kept,
                outputs,
                doubled,
                upstream,
                tensor_relations.specs(drawn),
                memory,
                values_of(layout),
                recorder.looks or giving.found,
            )
        counts = recorder.counts()
        elementwise = sum(
            elements for op, (_, elements, _) in counts.items() if not operators.is_free(op)
        )
        return {
            "inputs": layout,
            "init": init_layout,
            "outputs": outputs,
            "state": state,
            "state_layout": plan_layout(list(kept.values())),
            "operators": {k: v[0] for k, v in counts.items()},
            "operations": float(flops + elementwise),
            "bytes_read": reads.nbytes,
            "doubled": doubled,
            "results": len(model_calls.flatten(returned)),
            "held_bytes": tensor_relations.held_bytes(first, inputs),
            "call_s": call_s,
            "upstream": upstream,
            "terms": recorder.terms,
            "pointwise": recorder.pointwise,
            "roundoff": roundoff,
        }

    def _graph(self, live: LiveCase, seed: int) -> list[list[Any]]:
        import torch

        roots = [live.outputs["leaves"][number] for number in live.upstream]
        upstream = families.upstream(
            [(leaf["shape"], getattr(torch, leaf["dtype"])) for leaf in roots], seed, self._drawn_on
        )
        with self._all_threads():
            inputs = placement.move([*self._draw(live.spec, seed), *upstream], self._device)
            return dataflow.graph(model_calls.forward(live.model, live.upstream), inputs)

    def _complete(self) -> None:
        """What was written is there for others to read, and what computing it took is given back:
        once nothing of it is referred to."""
        if self.window is not None:
            import torch

            torch.cuda.synchronize()
            if torch.cuda.memory_reserved() > KEPT_BYTES:
                gc.collect()  # what hangs in cycles counts as used
            if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > KEPT_BYTES:
                torch.cuda.empty_cache()  # judge, baselines and candidates need some as well

    def _draw(self, spec: CaseSpec, seed: int) -> list[Any]:
        import torch

        torch.manual_seed(seed)
        random.seed(seed)
        # a task may draw with it; torch loads it where it is installed
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(seed % (1 << 32))
        if placement.is_host(self._drawn_on):
            return list(placement.move(self.file.inputs(spec), "cpu"))  # they cross as bytes
        with torch.device(self._drawn_on):
            return list(placement.move(self.file.inputs(spec), self._drawn_on))

    def _make_set(
        self, write: Sequence[_Write], case: str, seed: int, family: str, slack: float
    ) -> dict[str, Any]:
        import torch

        live = self.live[case]
        with self._all_threads():
            inputs, there, expected, turned = self._answer(live, seed, family, slack)
            layout = self._plan(inputs, "get_inputs")
            write[0](layout, inputs)
            finite = all(bool(torch.isfinite(t).all()) for t in expected if t.is_floating_point())
            dtypes = (getattr(torch, leaf["dtype"]) for leaf in live.outputs["leaves"])
            kept = [
                (t if d.is_floating_point else t.to(d)).contiguous()
                for t, d in zip(expected, dtypes, strict=True)
            ]
            expected_layout = plan_layout(kept)
            write[1](expected_layout, kept)
            write[2](
                live.outputs,
                [t.contiguous() for t in model_calls.forward(live.model, live.upstream)(there)],
            )
            for put, found in zip(write[3:], turned, strict=True):
                put(live.outputs, found)
            memory = self._memory(live, layout, there)
        return {
            "layout": layout,
            "memory": memory,
            "expected": expected_layout,
            "finite": finite,
        }

    def _make_one(
        self,
        write: Sequence[_Write],
        case: str,
        seed: int,
        family: str,
        slack: float,
        base: int,
        expected_base: int,
        framework: list[int],
    ) -> dict[str, Any]:
        import torch

        live = self.live[case]
        inputs, there, expected, turned = self._answer(live, seed, family, slack)
        layout = self._plan(inputs, "get_inputs")
        write[0](layout, inputs, base)
        dtypes = (getattr(torch, leaf["dtype"]) for leaf in live.outputs["leaves"])
        write[1](
            live.outputs,
            [t.to(d).contiguous() for t, d in zip(expected, dtypes, strict=True)],
            expected_base,
        )
        if framework:
            own = [t.contiguous() for t in model_calls.forward(live.model, live.upstream)(there)]
            leaves = [live.outputs["leaves"][number] for number in framework]
            write[2](
                {**live.outputs, "leaves": leaves},
                [own[number] for number in framework],
                expected_base,
            )
        for put, found in zip(write[len(write) - len(turned) :], turned, strict=True):
            put(live.outputs, found, expected_base)
        return {"layout": layout, "memory": self._memory(live, layout, there)}

    def _memory(self, live: LiveCase, layout: Layout, inputs: Any) -> dict[str, list[int]]:
        """Where the outputs lie for these inputs: one draw does not say it for another where the
        model can do one thing or another. On a device nobody asks."""
        if not placement.is_host(self._device):
            return live.memory
        if values_of(layout) == live.values and not live.looks:
            return live.memory
        call = model_calls.forward(live.model, live.upstream)
        return tensor_relations.memory(call(inputs), call(inputs))

    def _answer(
        self, live: LiveCase, seed: int, family: str, slack: float
    ) -> tuple[list[Any], list[Any], list[Any], list[list[Any]]]:
        """Inputs, upstream gradients among them, the same on the device, what the reference in high
        precision makes of them, and what it gives where values near a tie go the other way."""
        import torch

        drawn = self._draw(live.spec, seed)
        if tensor_relations.specs(drawn) != live.specs:
            raise TaskProblem(
                f"{self.lines.at('get_inputs')}: get_inputs(): shapes, strides or dtypes differ "
                "from draw to draw; they must be fixed for a case (shapes vary through CASES)"
            )
        roots = [live.outputs["leaves"][number] for number in live.upstream]
        upstream = families.upstream(
            [(leaf["shape"], getattr(torch, leaf["dtype"])) for leaf in roots],
            seed + 2,
            self._drawn_on,
        )
        inputs = families.vary([*drawn, *upstream], family, seed + 1)
        call = model_calls.forward(live.precise, live.upstream)
        there = placement.move(inputs, self._device)
        arguments = high_precision.doubled(there) if live.doubled else there
        expected = task_file.attempt(
            lambda: call(arguments), f"{_CALL} in float64", self.lines, *FORWARD
        )
        if [list(t.shape) for t in expected] != [leaf["shape"] for leaf in live.outputs["leaves"]]:
            raise TaskProblem(
                f"{self.lines.at(*FORWARD)}: the outputs' shapes depend on the inputs' values; "
                "they must be fixed for a case (shapes vary through CASES)"
            )
        dtypes = [getattr(torch, leaf["dtype"]) for leaf in live.outputs["leaves"]]
        return inputs, there, expected, rounding.turned(call, arguments, slack, dtypes)

    def _baseline(self, fds: list[int], case: str, name: str, slots: int, slot_bytes: int) -> None:
        import torch

        live = self.live[case]
        targets: dict[str, Any] = {}
        if name == "eager":
            model = live.model
        elif name == "compile":
            torch._dynamo.config.cache_size_limit = 256
            model = torch.compile(live.model, dynamic=False)
        else:
            init = copy.deepcopy(live.init)
            build = self.file.baselines[name]
            what = f"BASELINES[{name!r}]"
            anchors = (self.lines, what, "BASELINES")
            model = task_file.attempt(
                lambda: build(**init) if isinstance(init, dict) else build(*init), what, *anchors
            )
            wanted = {
                k: (list(v.shape), str(v.dtype).removeprefix("torch."))
                for k, v in live.initial_state.items()
            }
            targets = task_file.attempt(lambda: modules.match_state(wanted, model), what, *anchors)
            modules.copy_state(targets, [modules.state(live.model)[k] for k in wanted])
            if hasattr(model, "to"):
                model = model.to(self._device)
                targets = modules.match_state(wanted, model)
        # the user chose the others
        form = live.outputs["form"] if name in ("eager", "compile") else ""
        call = model_calls.forward(model, live.upstream, form)
        mapped = memory_files.map_shared(fds[0], slots * slot_bytes) if fds else None
        self.prepared[f"{case}/{name}"] = PreparedModel(
            call, live.outputs, mapped, slot_bytes, self._device, targets
        )

    def _plan(self, value: Any, function: str) -> Layout:
        try:
            return plan_layout(value)
        except TypeError as error:
            raise TaskProblem(
                f"{self.lines.at(function)}: {function}(): {error}; return those"
            ) from error

    def _problem(self, action: Callable[[], Any]) -> Any:
        """One step of the task's own code: problems are reported as such, and where it hangs is
        written down for the judge."""
        os.ftruncate(self._stack, 0)
        os.lseek(self._stack, 0, os.SEEK_SET)
        faulthandler.dump_traceback_later(self._patience_s, file=self._stack)
        try:
            found = task_file.attempt(action, _CALL, self.lines, *FORWARD)
            if reason := self._neighbours.problem():
                raise TaskProblem(f"{self.lines.at(*FORWARD)}: {reason}")
            return found
        except TaskProblem as error:
            raise modules.LoadError("task", str(error)) from error
        finally:
            faulthandler.cancel_dump_traceback_later()

    @contextlib.contextmanager
    def _all_threads(self) -> Any:
        """Preparation may use every core; timing never does."""
        import torch

        if self._settled:
            torch.set_num_threads(self._cpus)
        else:
            placement.use_threads(self._cpus)
            self._settled = True
        try:
            yield
        finally:
            torch.set_num_threads(1)


def _writers(fds: Sequence[int], sizes: Sequence[int]) -> list[_Write]:
    """How tensors are written where each descriptor leads: to a file, or to memory on a device."""
    if not sizes:
        return [partial(_to_file, fd) for fd in fds]
    there = [
        device_memory.opened(fd, size, writable=True) for fd, size in zip(fds, sizes, strict=True)
    ]
    return [partial(buffers.put, each) for each in there]


def _to_file(fd: int, layout: Layout, value: Any, base: int = 0) -> None:
    buffers.write(fd, layout, placement.move(value, "cpu"), base)


def _continuous(value: Any) -> bool:
    return bool(value.is_floating_point() or value.is_complex())


class _Printed(io.TextIOBase):
    """What a task prints goes to the log while it has room, and is then dropped: a noisy task may
    be a good one."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):  # full
            os.write(1, text.encode(errors="replace"))
        return len(text)


def _settle(folder: str, search_path: str, compiled_fd: int) -> None:
    """Programs, what was compiled, and the current folder, as a task finds them."""
    os.environ["PATH"] = search_path
    compile_cache.use_private_folders()
    if os.fstat(compiled_fd).st_size:
        compile_cache.unpack(compiled_fd)
    if folder:
        # not readable for whom this process has become: the import will say so
        with contextlib.suppress(OSError):
            os.chdir(folder)
        # a task may import its neighbours; our own packages stand before it
        sys.path.insert(1, folder)


def serve(sock: socket.socket, text_fd: int) -> None:
    """Entry of the forked, confined child."""
    sys.stdout = sys.stderr = _Printed()
    ReferenceHost(sock, text_fd).serve()
