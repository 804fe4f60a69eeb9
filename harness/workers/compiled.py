"""What a worker's own process compiled (the caches of Triton and inductor), handed to later workers with the same text.

The bytes come from a sandbox and go only into sandboxes of the same candidate or task; the judge never reads them.
"""

from __future__ import annotations

import io
import os
import tarfile

from . import buffers

MOST_BYTES = 256 << 20
_FOLDERS = {"TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor"}


def use_private_folders() -> None:
    """Called in a confined worker, in its scratch folder, before anything is compiled."""
    for variable, name in _FOLDERS.items():
        os.environ[variable] = os.path.join(os.getcwd(), name)


def pack(fd: int) -> int:
    """Write the caches into a file; the number of bytes, 0 where there is nothing or too much."""
    found = [path for path in (os.environ[variable] for variable in _FOLDERS) if os.path.isdir(path)]
    if not found:
        return 0
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in found:
            archive.add(path, arcname=os.path.basename(path))
    data = packed.getbuffer()
    if len(data) > MOST_BYTES:
        return 0
    os.ftruncate(fd, len(data))
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], done)
    return len(data)


def unpack(fd: int) -> None:
    """Put packed caches into this worker's folders."""
    with tarfile.open(fileobj=io.BytesIO(buffers.read_all(fd)), mode="r") as archive:
        archive.extractall(os.path.dirname(os.environ["TRITON_CACHE_DIR"]), filter="data")
