"""What a candidate's own process compiled (Triton's cache), handed from its checking worker to its timing workers.

The bytes are the candidate's, come from its sandbox and go only into sandboxes of the same candidate; the judge never reads them.
"""

from __future__ import annotations

import io
import os
import tarfile

from . import buffers

MOST_BYTES = 256 << 20


def folder() -> str:
    """Triton's cache of this worker: private, below its scratch folder."""
    return os.path.join(os.getcwd(), "triton")


def use_private_folder() -> None:
    """Called in a confined worker before anything is compiled."""
    os.environ["TRITON_CACHE_DIR"] = folder()


def pack(fd: int) -> int:
    """Write the cache into a file; the number of bytes, 0 where there is none or it is too large."""
    if not os.path.isdir(folder()):
        return 0
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(folder(), arcname="triton")
    data = packed.getbuffer()
    if len(data) > MOST_BYTES:
        return 0
    os.ftruncate(fd, len(data))
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], done)
    return len(data)


def unpack(fd: int) -> None:
    """Put a packed cache into this worker's folder."""
    with tarfile.open(fileobj=io.BytesIO(buffers.read_all(fd)), mode="r") as archive:
        archive.extractall(os.getcwd(), filter="data")
