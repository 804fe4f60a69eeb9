"""The caches of Triton and inductor in a worker, passed on to later workers with the same text.

The bytes come from a sandbox and go only to sandboxes of the same candidate or task; the judge
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
    """Compile one function in `folder`, where the next server finds it. Called in a fork server
    before it forks: its workers then reuse the precompiled header of inductor's kernels, which
    takes 10 s to build."""
    import torch

    if (tqdm := sys.modules.get("tqdm")) is not None:
        # inductor's progress bar would start a thread, and a fork server must have none
        tqdm.tqdm.monitor_interval = 0
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    _headers(os.path.join(folder, "headers"))
    if _built_for_this_processor():
        with contextlib.suppress(Exception):  # without this setting inductor tests for 5 s
            importlib.import_module("torch._inductor.config").cpp.vec_isa_ok = True
    # without a compiler the baseline of each task reports it
    with contextlib.suppress(Exception), torch.no_grad():
        torch.compile(_nothing, dynamic=False)(torch.ones(64))


def _built_for_this_processor() -> bool:
    """Return whether torch has functions for this processor's best vector instructions. Then
    inductor need not test them: a compiler that can read torch's headers supports them."""
    import torch

    with contextlib.suppress(OSError, AttributeError), open("/proc/cpuinfo") as file:
        return bool(
            torch.backends.cpu.get_cpu_capability()
            == ("AVX512" if " avx512f" in file.read() else "AVX2")
        )
    return False


def warm_up_triton() -> None:
    """Do in advance what Triton otherwise repeats in each process. Called in a fork server before
    it forks. Triton hashes its own files (0.5 s) and builds its functions for the driver (0.4 s),
    in TRITON_CACHE_DIR if that is set: 0.9 s of the 1.3 s of a first launch on an H200's host. No
    device is used."""
    with contextlib.suppress(Exception):  # elsewhere in other versions, which then stay slower
        importlib.import_module("triton.runtime.cache").triton_key()
    if "TRITON_CACHE_DIR" not in os.environ:
        return
    with contextlib.suppress(Exception):  # the first launch reports a missing compiler or driver
        utils = importlib.import_module("triton.backends.nvidia.driver").CudaUtils
        utils()
        utils.__init__ = _built  # the class has one object, which each use would build again


def _built(_utils: Any) -> None:
    """Do nothing: the object is already built."""


def _nothing(x: Any) -> Any:
    return x * 2 + 1


def _headers(folder: str) -> None:
    """Set the folder of inductor's precompiled headers, for which it has no setting and uses
    /tmp."""
    if (codecache := sys.modules.get("torch._inductor.codecache")) is not None:
        vars(codecache).update(_HEADER_DIR=folder, _HEADER_LOCK_DIR=os.path.join(folder, "locks"))


def use_private_folders() -> None:
    """Put the caches into the current folder. Called in a confined worker, in its scratch folder,
    before anything is compiled."""
    for variable, name in _FOLDERS.items():
        os.environ[variable] = os.path.join(os.getcwd(), name)
    _headers(os.path.join(os.getcwd(), "headers"))


def pack(fd: int) -> int:
    """Write the caches to a file. Returns the number of bytes, 0 if there is nothing or too
    much."""
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
    """Unpack caches into this worker's folders."""
    with tarfile.open(fileobj=io.BytesIO(memory_files.read_all(fd)), mode="r") as archive:
        archive.extractall(os.path.dirname(os.environ["TRITON_CACHE_DIR"]), filter=_bare)


def _bare(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """Drop modes and times, which a candidate's process cannot set."""
    return tarfile.data_filter(member, folder).replace(mode=None, mtime=None)  # type: ignore[arg-type]  # documented, and not in the stubs
