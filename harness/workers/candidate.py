"""The process that runs one candidate: confined before this code starts, used once, and never
trusted."""

from __future__ import annotations

import copy
import ctypes
import gc
import json
import os
import socket
from typing import Any

from .. import native
from ..types import to_json
from ..wire import buffers, frames, launches, memory_files
from ..wire.layouts import Layout, tensor_entries
from . import (
    compile_cache,
    framework_compiler,
    guarded_memory,
    host,
    memory_faults,
    model_calls,
    modules,
    object_places,
    own_kernels,
    placement,
    process_settings,
)
from .prepared_model import PreparedModel


class CandidateHost(host.Host):
    """The commands of a candidate's worker besides those of every host."""

    module: Any = None
    _modes: dict[str, Any]  # once a model was constructed, see process_settings
    _own_kernels: own_kernels.OwnKernels | None = None
    _recorder: launches.LaunchRecorder | None = None

    def __init__(self, sock: socket.socket, text_fd: int) -> None:
        super().__init__(sock, text_fd)
        self._instances: dict[str, Any] = {}  # models that several cases share, by name
        self._built: dict[str, str] = {}  # paths of libraries, by identity

    def on_load(self, fds: list[int], poison: bool = False, forks: bool = True) -> None:
        """Execute the candidate's text (first descriptor), with what it compiled earlier (second
        descriptor, if given). poison: fill memory from malloc with a pattern and watch launches of
        the candidate's own kernels; such a worker verifies and is never timed. forks: timed
        processes may start others, which torch.compile needs."""
        native.use_builder(self._build)
        compile_cache.use_private_folders()
        if len(fds) > 1:
            compile_cache.unpack(fds[1])
        if poison:
            self._own_kernels = own_kernels.OwnKernels()
            self._recorder = launches.LaunchRecorder(runs=True)
            native.observe_launches(self._recorder.note)
            self.guarded = True
            memory_faults.explain_faults()
            _fill_fresh(True)
        if not forks:
            framework_compiler.refuse()
        source = memory_files.read_all(fds[0]).decode()
        self.module = modules.load(source, "candidate", "candidate.py")
        names = (modules.CANDIDATE.class_name, modules.CANDIDATE.function_name)
        if not any(hasattr(self.module, name) for name in names):
            modules.construct(self.module, modules.CANDIDATE, [], 0)  # raises with the explanation

    def on_case(
        self,
        fds: list[int],
        case: str,
        key: str,
        init: Layout,
        outputs: Layout,
        slots: int,
        slot_bytes: int,
        state: dict[str, list[Any]],
        seed: int,
        upstream: list[int],
        trained: list[str],
        aliases: list[int],
        device: str = "cpu",
        instance: str = "",
        recording: bool = False,
    ) -> None:
        """Construct the model for one case.

        upstream, recording: see model_calls.forward. trained: the reference's names of the
        parameters whose gradients are wanted. aliases: the outputs that may share memory with
        inputs. instance: a name under which the model is kept and reused, "" for none. Descriptors:
        the init inputs and, unless the judge reads outputs in place, the output slots.
        """
        if self._recorder is not None:
            self._recorder.case = case
        model = self._instances.get(instance)
        if model is None:
            # copied: a constructor may keep its arguments or write to them
            arguments = copy.deepcopy(buffers.read(fds[0], init))
            model = self._construct(key, arguments, seed)
            if not placement.is_host(device) and hasattr(model, "to"):
                model = model.to(device)
        if key == case:  # other instances come after calls
            self._modes = process_settings.modes()
        if instance:
            self._instances[instance] = model
        reference_state = {name: (shape, dtype) for name, (shape, dtype) in state.items()}
        targets = modules.match_state(reference_state, model)
        _require_gradients({name: targets[name] for name in trained})
        mapped = memory_files.map_shared(fds[1], slots * slot_bytes) if len(fds) > 1 else None
        self.prepared[key] = PreparedModel(
            model_calls.forward(
                model,
                upstream,
                outputs["form"],
                [targets[name] for name in trained],
                recording=recording,
            ),
            outputs,
            mapped,
            slot_bytes,
            device,
            targets,
            None if upstream else getattr(model, "without_kernel", None),
            aliases,
            model,
            reference_state,
        )

    def _construct(self, key: str, init: Any, seed: int) -> Any:
        """Construct a model: if there is one with this key, in its place."""
        bare, places = list[Any](), None
        if key in self.prepared:
            places = object_places.Places(self.prepared[key].model)
            del self.prepared[key]
            gc.collect(1)  # it may be in a reference cycle
            bare = places.take()
        model = modules.construct(self.module, modules.CANDIDATE, init, seed, bare)
        del places  # holds what fills the heap
        return model

    def on_drop(self, fds: list[int], key: str) -> None:
        """Forget the model with this key; see Host.on_drop."""
        self._instances.pop(key, None)
        super().on_drop(fds, key)

    def on_state(self, fds: list[int], key: str, layout: Layout, partly: bool = False) -> None:
        """Copy the reference's parameters into the model. partly: only those that differ."""
        values = list(buffers.read(fds[0], layout))
        modules.copy_state(self.prepared[key].state(), values, partly=partly)

    def on_state_places(self, fds: list[int], key: str, names: list[str]) -> list[int]:
        """Return the addresses of these parameters and buffers, 0 for one that is not contiguous or
        that the judge cannot read."""
        tensors = self.prepared[key].state()
        return [
            tensors[name].data_ptr()
            if tensors[name].is_contiguous() and self.is_readable(tensors[name])
            else 0
            for name in names
        ]

    def on_settings(self, fds: list[int], *, before: bool) -> dict[str, Any]:
        """Return what a call must leave as it was, before it or after it; before it with torch's
        settings as the candidate's constructor left them. See process_settings."""
        if before:
            process_settings.prepare()
            return {**process_settings.present(), **self._modes}
        return process_settings.present()

    def on_left_state(self, fds: list[int], key: str, layout: Layout, names: list[str]) -> None:
        """Write the present values of these parameters and buffers, named as in the reference."""
        import torch

        targets, values = self.prepared[key].state(), []
        for name, entry in zip(names, tensor_entries(layout), strict=True):
            # a file receives the bytes in memory order, so the reference's strides are needed
            value = torch.empty_strided(
                entry["shape"], entry["stride"], dtype=targets[name].dtype, device="cpu"
            )
            values.append(value.copy_(targets[name].detach()))
        buffers.write(fds[0], layout, values)

    def on_own_kernels(
        self, fds: list[int], mode: own_kernels.KernelMode
    ) -> tuple[Any, tuple[int, ...]]:
        """Switch the mode of OwnKernels. values: launches of the candidate's own kernels since the
        last such command, and the nanoseconds that they took (after mode "meter"). data: the C++
        functions called, each as [identity of its build, name, calls]."""
        self.guarded = self.guarded and mode == "count"  # guarded allocations take time
        if self._own_kernels is None:
            return [], (0, 0)
        # not while metering: filling an output of 12 MiB takes as long as the kernel that writes it
        _fill_fresh(mode != "meter")
        called = [[*key, calls] for key, calls in self._own_kernels.called.items()]
        return called, self._own_kernels.switch(mode)

    def on_collect(self, fds: list[int]) -> tuple[Any, tuple[int, ...]]:
        """Write every launched kernel of load_cuda to the first descriptor. values: bytes written,
        kernels left out."""
        recorder = self._recorder
        size, left_out = launches.hand_over(recorder.kernels() if recorder else [], fds[0])
        return None, (size, left_out + (recorder.left_out if recorder else 0))

    def _build(self, order: native.BuildOrder) -> native.BuiltFile:
        """Order a build from the judge's build service. The file arrives as a descriptor that stays
        open."""
        size = self.put(json.dumps(to_json(order)))
        if size >= frames.TEXT_BYTES:
            raise native.NativeError(f"the native source is larger than {frames.TEXT_BYTES} bytes")
        self._sock.send(frames.Reply(frames.BUILD, self._sequence, size).pack())
        answer, fds = frames.receive(self._sock)
        if "error" in answer:
            raise native.NativeError(answer["error"])
        # equal orders share one library and its static variables, as outside of an evaluation
        path = f"/proc/self/fd/{fds[0]}"
        first = self._built.setdefault(answer["identity"], path)
        if first != path:
            os.close(fds[0])
        return native.BuiltFile(first, answer["symbols"], answer["identity"])


def _require_gradients(parameters: dict[str, Any]) -> None:
    """Raise LoadError where a parameter is a buffer or does not require gradients."""
    fixed = [name for name, tensor in parameters.items() if not tensor.requires_grad]
    if fixed:
        raise modules.LoadError(
            "parameter_mismatch",
            f"these require gradients in the reference but not in the candidate: "
            f"{', '.join(fixed)}. Make each an nn.Parameter, as the reference does",
        )


def _fill_fresh(on: bool) -> None:
    """Set whether malloc fills new memory with FRESH. M_PERTURB is the pattern of freed memory; new
    memory gets the complement."""
    ctypes.CDLL(None).mallopt(-6, guarded_memory.FRESH ^ 0xFF if on else 0)


def serve(sock: socket.socket, text_fd: int) -> None:
    """Entry of the forked, confined child."""
    os.umask(0o077)
    CandidateHost(sock, text_fd).serve()
