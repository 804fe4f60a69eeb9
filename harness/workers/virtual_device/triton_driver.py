"""A driver for Triton without a device: it reports the properties of a given device, and loads and
launches nothing.

It implements only the driver interface of Triton's own back ends (`triton.backends.driver`). No
compiler pass and no part of the just-in-time path is replaced, so specialization, autotuning and
resource checks are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# name, binary, shared bytes -> registers, spills
Loader = Callable[[str, Any, int], "tuple[int, int]"]
# the metadata given to `launcher_cls`, and the grid
Launched = Callable[[Any, "tuple[int, ...]"], None]
MAX_THREADS = 1024  # of a block, on every architecture


class VirtualDriver:
    """The driver. target: (backend, arch, warp size). device: a `cuda_mapping.Device`. on_load,
    on_launch: called instead of loading and launching."""

    def __init__(
        self,
        target: tuple[str, int | str, int],
        device: dict[str, Any],
        number: int,
        on_load: Loader,
        on_launch: Launched,
    ) -> None:
        from triton.backends.compiler import GPUTarget

        self._target, self._number, self._on_launch = GPUTarget(*target), number, on_launch
        self._capability = tuple(device["capability"])
        self.utils = _Utilities(device, on_load)
        self.benchmarking = False

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        """Return the function that Triton calls to launch, with grid sizes, stream, function, …"""

        def launch(x: int, y: int, z: int, *arguments: Any) -> None:
            self._on_launch(metadata, (int(x), int(y), int(z)))

        return launch

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        """Return the number by which Triton caches compiled kernels; each target needs its own."""
        return self._number

    def set_current_device(self, device: Any) -> None:
        """Do nothing: there is one device."""

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_device_capability(self, *_: Any) -> tuple[int, ...]:
        return self._capability

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", 0)

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(1)

    def clear_cache(self, cache: Any) -> None:
        """Do nothing: there is no cache to clear."""

    def map_python_to_cpp_type(self, kind: str) -> str:
        return kind

    def assemble_tensormap_to_arg(self, tensormaps: Any, arguments: Any) -> Any:
        return arguments

    def get_benchmarker(self) -> Callable[..., list[float]]:
        return self.benchmark

    def benchmark(self, call: Callable[[], Any], *_: Any, quantiles: Any = None, **__: Any) -> Any:
        """Call once and return the same time for every configuration, so that the first one
        wins."""
        self.benchmarking = True
        try:
            call()
        finally:
            self.benchmarking = False
        return [1.0] * len(quantiles) if quantiles else 1.0


class _Utilities:
    def __init__(self, device: dict[str, Any], on_load: Loader) -> None:
        self._device, self._on_load = device, on_load

    def get_device_properties(self, device: Any) -> dict[str, int]:
        d = self._device
        return {
            "max_shared_mem": d["shared_block"],
            "max_num_regs": d["registers"],
            "multiprocessor_count": d["multiprocessors"],
            "warpSize": d["warp_size"],
            "sm_clock_rate": 1_500_000,
            "mem_clock_rate": 1_500_000,
            "mem_bus_width": 4096,
        }

    def load_binary(
        self, name: str, binary: Any, shared: int, device: Any
    ) -> tuple[Any, Any, int, int, int]:
        """Return (module, function, registers, spills, most threads of a block)."""
        registers, spills = self._on_load(name, binary, shared)
        return object(), object(), registers, spills, MAX_THREADS


def install(driver: VirtualDriver) -> None:
    """Install the driver for the rest of this process, also in place of Triton's timing functions,
    which would wait for a device."""
    import triton
    import triton.testing
    from triton.runtime import driver as slot

    slot.set_active(driver)
    for name in ("do_bench", "do_bench_cudagraph"):
        if hasattr(triton.testing, name):
            setattr(triton.testing, name, driver.benchmark)
