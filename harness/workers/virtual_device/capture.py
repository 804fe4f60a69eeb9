"""The process that compiles one Triton candidate for a device that the machine need not have:
`forward` runs once for each case on host memory, and every kernel that it launches is compiled with
the specialization of that launch and recorded instead of launched."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import replace
from typing import Any

from ...wire import buffers, launches
from ...wire.launches import Captured
from ...wire.layouts import Layout
from .. import binaries, candidate, modules
from . import cuda_mapping, triton_driver

DISASSEMBLED = 24  # each takes about 0.3 s
_DEBUG = re.compile(
    r"^\s*(?:\.loc|\.file|\$L__tmp\d+:|\.Ltmp\d+:|\.Lfunc_\w+:|;DEBUG).*\n", re.MULTILINE
)


class CaptureHost(candidate.CandidateHost):
    """The commands besides those of a candidate's worker: `device` before all others, `capture` for
    a case, `collect` at the end."""

    def on_device(self, fds: list[int], device: cuda_mapping.Device, target: list[Any]) -> None:
        """Install the virtual device. target: backend, architecture, warp size. Caches go to this
        process's private folder."""
        self._case = ""
        # by id(); the kernel is kept, so that its id stays unique
        self._compiled: dict[int, tuple[Any, Captured]] = {}
        self._loading: Any = None
        self._left_out = 0
        tempfile.tempdir = os.getcwd()
        os.environ["TRITON_CACHE_DIR"] = os.path.join(os.getcwd(), f"triton-{os.getpid()}")
        cuda_mapping.install(device, zero=True)
        self._driver = triton_driver.VirtualDriver(
            (target[0], target[1], target[2]), device, 1, self._load, self._launch
        )
        triton_driver.install(self._driver)
        self._watch()

    def on_capture(self, fds: list[int], key: str, layout: Layout) -> None:
        """Call the case's model once with the inputs (first descriptor)."""
        self._case = key
        self.prepared[key].call(buffers.read(fds[0], layout))

    def on_collect(self, fds: list[int]) -> tuple[Any, tuple[int, ...]]:
        """Write every kernel as JSON to the first descriptor. values: bytes written, kernels left
        out."""
        kernels = []
        for index, (kernel, record) in enumerate(self._compiled.values()):
            kernels.append(self._read(kernel, record, disassemble=index < DISASSEMBLED))
        size, more = launches.hand_over(kernels, fds[0])
        return None, (size, self._left_out + more)

    # ---- what the driver reports -----------------------------------------------------------------

    def _watch(self) -> None:
        """Track which kernel is being loaded, and distinguish the compiler's errors from the
        candidate's."""
        from triton.compiler import CompiledKernel
        from triton.errors import TritonError
        from triton.runtime.jit import JITFunction

        load = CompiledKernel._init_handles

        def loading(kernel: Any) -> None:
            self._loading = kernel
            try:
                load(kernel)
            except TritonError as error:
                self._keep(kernel, refused=str(error))
                raise

        CompiledKernel._init_handles = loading
        if not hasattr(JITFunction, "_do_compile"):
            return
        build = JITFunction._do_compile

        def building(function: Any, *arguments: Any, **named: Any) -> Any:
            try:
                return build(function, *arguments, **named)
            except TritonError:  # the autotuner recognises these by class
                raise
            except Exception as error:
                raise modules.LoadError("compile", f"{type(error).__name__}: {error}") from error

        JITFunction._do_compile = building

    def _load(self, name: str, binary: Any, shared: int) -> tuple[int, int]:
        kernel = self._loading
        self._keep(kernel)
        if "amdgcn" in kernel.asm:
            counts = dict(
                re.findall(r"\.(vgpr_count|vgpr_spill_count):\s+(\d+)", kernel.asm["amdgcn"])
            )
            return int(counts.get("vgpr_count", 0)), int(counts.get("vgpr_spill_count", 0))
        words = binaries.run("cuobjdump", ["-res-usage"], binary)
        registers = [int(n) for n in re.findall(r"\bREG:(\d+)", words)]
        return max(registers, default=0), 0

    def _launch(self, metadata: Any, grid: tuple[int, ...]) -> None:
        for identity, (kernel, record) in self._compiled.items():
            if kernel.metadata is metadata:
                tuning = self._driver.benchmarking
                cases = record.cases if self._case in record.cases else (*record.cases, self._case)
                self._compiled[identity] = (
                    kernel,
                    replace(
                        record,
                        grid=record.grid
                        if record.launches or tuning
                        else (grid[0], grid[1], grid[2]),
                        launches=record.launches + (not tuning),
                        tuning=record.tuning and tuning,
                        cases=cases,
                    ),
                )

    def _keep(self, kernel: Any, refused: str = "") -> None:
        entry = self._compiled.get(id(kernel))
        if entry is not None:
            self._compiled[id(kernel)] = (
                kernel,
                replace(entry[1], refused=entry[1].refused or refused),
            )
            return
        if len(self._compiled) >= launches.KERNELS:
            self._left_out += 1
            return
        m = kernel.metadata
        signature, constants = _specialization(kernel.src)
        record = Captured(
            name=str(kernel.name),
            num_warps=int(m.num_warps),
            num_stages=int(getattr(m, "num_stages", 0) or 0),
            num_ctas=int(getattr(m, "num_ctas", 1) or 1),
            shared=int(m.shared),
            tensor=int(getattr(m, "tmem_size", 0) or 0),
            signature=signature,
            constants=constants,
            tuning=True,
            refused=refused,
            cases=(self._case,),
        )
        self._compiled[id(kernel)] = (kernel, record)

    def _read(self, kernel: Any, record: Captured, *, disassemble: bool) -> Captured:
        texts = {
            kind: _listing(kernel.asm[kind]) for kind in ("ptx", "amdgcn") if kind in kernel.asm
        }
        resources = ""
        if "cubin" in kernel.asm:
            resources = binaries.run("cuobjdump", ["-res-usage"], kernel.asm["cubin"])[:4000]
            if disassemble and (sass := binaries.run("nvdisasm", ["-c"], kernel.asm["cubin"])):
                texts["sass"] = sass[: launches.TEXT_CHARS]
        return replace(record, texts=texts, resources=resources)


def _listing(text: str) -> str:
    """Remove debugging directives, which are long and of no use to a reader. AMD's metadata at the
    end is kept."""
    plain = _DEBUG.sub("", text)
    for start, end in (("\t.section\t.debug_", "\t.amdgpu_metadata"), ("\t.section\t.debug_", "")):
        begin = plain.find(start)
        stop = plain.find(end, begin) if end and begin >= 0 else len(plain)
        if begin >= 0 and stop >= 0:
            plain = plain[:begin] + plain[stop:]
    return (
        plain
        if len(plain) <= launches.TEXT_CHARS
        else f"{plain[: launches.TEXT_CHARS - 4000]}\n[…]\n{plain[-4000:]}"
    )


def _specialization(source: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Return (argument types, constants) by argument name, as short texts."""
    names = list(getattr(getattr(source, "fn", None), "arg_names", []))
    signature = {str(k): str(v)[:80] for k, v in dict(getattr(source, "signature", {})).items()}
    constants = {}
    for path, value in dict(getattr(source, "constants", {})).items():
        place = path[0] if isinstance(path, tuple) else path
        name = names[place] if isinstance(place, int) and place < len(names) else str(place)
        constants[name] = str(getattr(value, "__name__", value))[:80]
    return {k: v for k, v in signature.items() if k not in constants}, constants


def serve(sock: Any, text_fd: int) -> None:
    """Entry of the forked, confined child."""
    os.umask(0o077)
    CaptureHost(sock, text_fd).serve()
