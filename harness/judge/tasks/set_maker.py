"""Makes input sets with their expected outputs from secret seeds. A reference worker makes them, in
files that a worker sees once, or in the judge's memory on a device."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ...targets import DeviceFamily
from ...wire import frames, memory_files
from ...wire.layouts import PLAIN_BYTES, integer_tensors
from ...workers import rounding
from ..device import host_memory
from ..exchange import device_link
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import Group, InputSet
from ..processes import answers
from ..processes.worker import Worker
from .set_allowances import rounding_slack
from .set_memory import DeviceSetMemory, HostSetMemory, SetMemory
from .task_workers import TASK_SECONDS

if TYPE_CHECKING:
    import torch

# limits on draws whose outputs are compared with each other: bytes, seconds, and draws at once
DRAWN_BYTES, DRAWN_SECONDS, DRAWN_AT_ONCE = 256 << 20, 0.5, 32
_PLACES_BYTES = 64  # of JSON for the place of an output, and once more around all


class SetMaker:
    """Makes sets through one reference worker. shared: on the device, in memory that workers share
    with the judge."""

    def __init__(self, worker: Worker, family: DeviceFamily, *, shared: bool) -> None:
        self._worker, self._family, self._shared = worker, family, shared

    def free_bytes(self) -> int:
        """Return the free bytes of the memory in which sets are held."""
        return device_link.free_bytes() if self._shared else host_memory.available()

    def make_set(
        self,
        pool: CasePool,
        family: str,
        seed: int | None = None,
        *,
        sampled: bool = False,
        replaced: bool = False,
    ) -> InputSet:
        """Make one set with expected outputs in high precision. seed: to make a set again. sampled,
        replaced: with what samples change, and with what other draws and lost products do, see
        InputSet.effects."""
        # the unused pages of a layout, and the rest of one
        between = memory_files.PAGE * (1 + 2 * len(pool.outputs["leaves"]))
        slack = rounding_slack(pool, family)
        memories = self._allocate(
            pool.input_bytes,
            between + pool.precise_bytes,
            pool.slot_bytes,
            *([between + pool.precise_bytes] if pool.has_second else []),
            *([pool.slot_bytes] * len(rounding.SIDES) if slack else []),
        )
        inputs, expected, framework, *others = memories
        seconds, alternatives = others[: pool.has_second], others[pool.has_second :]
        seed = secrets.randbits(48) if seed is None else seed
        arguments = {
            "case": pool.name,
            "seed": seed,
            "family": family,
            "slack": slack and asdict(slack),
            "sampled": sampled,
            "replaced": replaced,
        }
        data = self._worker.data(self._fill("make_set", memories, TASK_SECONDS, arguments))
        precise = self._place(expected.tensors(data["expected"]))
        rounded = self._place(framework.tensors(pool.outputs))
        return InputSet(
            inputs.file(),
            0,
            data["layout"],
            precise,
            family,
            seed,
            data["finite"],
            data["left_open"],
            rounded,
            alternatives=[self._place(each.tensors(pool.outputs)) for each in alternatives],
            second=[t for each in seconds for t in self._place(each.tensors(data["second"]))],
            memory=data["memory"],
            orders=pool.orders,
            counted=pool.counted,
            effects=data["effects"],
        )

    def draw_outputs(self, pool: CasePool, most: int) -> list[list[torch.Tensor]]:
        """Return the expected outputs of so many plain draws, fewer where they are large or take
        long."""
        most = min(most, DRAWN_BYTES // pool.slot_bytes)
        at_once = max(1, min(DRAWN_AT_ONCE, DRAWN_BYTES // (4 * pool.set_bytes)))
        outputs: list[list[torch.Tensor]] = []
        end = time.monotonic() + DRAWN_SECONDS
        while len(outputs) < most and time.monotonic() < end:
            # few at first, since one may take long
            count = min(at_once, most - len(outputs), 1 + len(outputs))
            group = self.make_group(pool, ["dense"] * count)
            outputs += [input_set.expected for input_set in group.sets]
        return outputs

    def make_group(self, pool: CasePool, families: list[str]) -> Group:
        """Make sets of these families for one timed burst, with expected outputs in the outputs'
        own dtypes."""
        calls, stride = len(families), max(pool.input_bytes, memory_files.PAGE)
        numbers = (
            list(range(len(pool.outputs["leaves"])))
            if pool.bitwise
            else integer_tensors(pool.outputs)
        )
        outputs = calls * pool.slot_bytes
        slacks = [slack and asdict(slack) for slack in (rounding_slack(pool, f) for f in families)]
        other_sizes = [outputs] * (bool(numbers) + (len(rounding.SIDES) if slacks[0] else 0))
        inputs, *results = self._allocate(calls * stride, outputs, *other_sizes)
        seeds = [secrets.randbits(48) for _ in range(calls)]
        arguments = {
            "case": pool.name, "seeds": seeds,
            "families": families, "slacks": slacks, "stride": stride, "slot_bytes": pool.slot_bytes,
            "framework": numbers,
        }  # fmt: skip
        # the layouts may be long: the file has room for all, and for the places of outputs
        text_bytes = len(json.dumps(pool.describe["inputs"])) + PLAIN_BYTES
        layout_bytes = text_bytes + _PLACES_BYTES * (1 + len(pool.outputs["leaves"]))
        layouts_fd = memory_files.create("layouts", calls * layout_bytes)
        try:
            self._fill(
                "make_group", [inputs, *results], calls * TASK_SECONDS, arguments, layouts_fd
            )
            replies = answers.parse(memory_files.read_all(layouts_fd).rstrip(b"\0"))
        finally:
            os.close(layouts_fd)
        file = inputs.file()
        expected, *computed = (
            self._place(each.stack(pool.outputs, calls, pool.slot_bytes)) for each in results
        )
        framework = [
            computed[0][number] if number in numbers else None for number in range(len(expected))
        ]
        alternatives = computed[bool(numbers) :]
        # usually that of all sets: then they share the object, so that it is sent once
        common = replies[0]["layout"]
        text = json.dumps(common)  # compared as text, since 1 == True and 0.0 == -0.0
        sets = [
            InputSet(
                file,
                number * stride,
                common if json.dumps(each["layout"]) == text else each["layout"],
                [output[number] for output in expected],
                family,
                seeds[number],
                alternatives=[[output[number] for output in side] for side in alternatives],
                memory=each["memory"],
                orders=pool.orders,
                counted=pool.counted,
            )
            for number, (each, family) in enumerate(zip(replies, families, strict=True))
        ]
        return Group(sets, expected, framework, alternatives)

    def _allocate(self, *sizes: int) -> list[SetMemory]:
        """Allocate memory for inputs and expected outputs."""
        return [DeviceSetMemory(size) if self._shared else HostSetMemory(size) for size in sizes]

    def _fill(
        self,
        op: str,
        memories: Sequence[SetMemory],
        seconds: float,
        arguments: dict[str, Any],
        *other_fds: int,
    ) -> frames.Reply:
        """Let the worker fill the memory, and return its reply. other_fds: additional
        descriptors."""
        if self._shared:
            device_link.give_back()
        fds = [memory.fd() for memory in memories]
        try:
            return self._worker.ask(
                op,
                [*fds, *other_fds],
                seconds=seconds,
                sizes=[memory.nbytes for memory in memories if self._shared],
                **arguments,
            )
        finally:
            for memory, fd in zip(memories, fds, strict=True):
                memory.finish(fd)

    def _place(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Move expected outputs to where comparing is fastest: the judge's memory on the device."""
        there = self._family.OWN_MEMORY
        return [t.to(self._family.TORCH_DEVICE) for t in tensors] if there else tensors
