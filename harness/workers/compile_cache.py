"""What a worker's own process compiled (the caches of Triton and inductor), handed to later workers
with the same text.

The bytes come from a sandbox and go only into sandboxes of the same candidate or task; the judge
never reads them.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import tarfile
from typing import Any

from ..wire import memory_files

MOST_BYTES = 256 << 20
_FOLDERS = {"TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor"}


def warm_up(folder: str) -> None:
    """Called in a fork server, before it forks: compile one function in `folder`, where the next
    server finds it. Forks then read the precompiled header of inductor's kernels (10 s)."""
    import torch

    if (tqdm := sys.modules.get("tqdm")) is not None:
        # inductor's progress bar would start a thread, and no fork may happen beside one
        tqdm.tqdm.monitor_interval = 0
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    _headers(os.path.join(folder, "headers"))
    if _built_for_this_processor():
        with contextlib.suppress(Exception):  # no such setting: it tries for 5 s
            importlib.import_module("torch._inductor.config").cpp.vec_isa_ok = True
    # without a compiler the baseline says so, for each task
    with contextlib.suppress(Exception), torch.no_grad():
        torch.compile(_nothing, dynamic=False)(torch.ones(64))


def _built_for_this_processor() -> bool:
    """Whether torch has functions for the best vector instructions that are here. Then inductor
    need not try them: that a compiler which can read torch's headers knows them is certain."""
    import torch

    with contextlib.suppress(OSError, AttributeError), open("/proc/cpuinfo") as file:
        return bool(
            torch.backends.cpu.get_cpu_capability()
            == ("AVX512" if " avx512f" in file.read() else "AVX2")
        )
    return False


def warm_up_triton() -> None:
    """Called in a fork server, before it forks: what Triton does anew in each process, of a first
    launch on the host of an H200 some 0.9 s of 1.3. It hashes its own files (0.5 s), and builds its
    functions for the driver (0.4 s), in TRITON_CACHE_DIR where that is given. No device is
    touched."""
    with contextlib.suppress(Exception):  # other versions keep it elsewhere, and are slower
        importlib.import_module("triton.runtime.cache").triton_key()
    if "TRITON_CACHE_DIR" not in os.environ:
        return
    with contextlib.suppress(Exception):  # without a compiler or a driver the first launch says so
        utils = importlib.import_module("triton.backends.nvidia.driver").CudaUtils
        utils()
        utils.__init__ = _built  # one object for all, which every use would build again


def _built(_utils: Any) -> None:
    """Everything is there already."""


def _nothing(x: Any) -> Any:
    return x * 2 + 1


def _headers(folder: str) -> None:
    """Where inductor keeps precompiled headers that it has not found yet. It has no setting for
    that; without one it takes /tmp."""
    if (codecache := sys.modules.get("torch._inductor.codecache")) is not None:
        vars(codecache).update(_HEADER_DIR=folder, _HEADER_LOCK_DIR=os.path.join(folder, "locks"))


def use_private_folders() -> None:
    """Called in a confined worker, in its scratch folder, before anything is compiled."""
    for variable, name in _FOLDERS.items():
        os.environ[variable] = os.path.join(os.getcwd(), name)
    _headers(os.path.join(os.getcwd(), "headers"))


def pack(fd: int) -> int:
    """Write the caches into a file; the number of bytes, 0 where there is nothing or too much."""
    paths = [
        path for path in (os.environ[variable] for variable in _FOLDERS) if os.path.isdir(path)
    ]
    if not paths:
        return 0
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in paths:
            archive.add(path, arcname=os.path.basename(path))
    data = packed.getbuffer()
    if len(data) > MOST_BYTES:
        return 0
    os.ftruncate(fd, len(data))
    position = 0
    while position < len(data):
        position += os.pwrite(fd, data[position:], position)
    return len(data)


def unpack(fd: int) -> None:
    """Put packed caches into this worker's folders."""
    with tarfile.open(fileobj=io.BytesIO(memory_files.read_all(fd)), mode="r") as archive:
        archive.extractall(os.path.dirname(os.environ["TRITON_CACHE_DIR"]), filter=_bare)


def _bare(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """Without modes and times, which a candidate's process cannot set."""
    return tarfile.data_filter(member, folder).replace(mode=None, mtime=None)  # type: ignore[arg-type]  # documented, and not in the stubs
