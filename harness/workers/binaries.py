"""NVIDIA's binary tools, run on a cubin."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec

TOOL_SECONDS = 20


def find(name: str) -> str:
    """Return the path of `nvdisasm` or `cuobjdump`: Triton's own, else the CUDA toolkit's; ""
    without one."""
    spec = find_spec("triton")
    bundled = (
        [
            os.path.join(p, "backends", "nvidia", "bin", name)
            for p in (spec.submodule_search_locations or ())
        ]
        if spec
        else []
    )
    places = [*bundled, shutil.which(name) or "", f"/usr/local/cuda/bin/{name}"]
    return next((p for p in places if p and os.path.isfile(p)), "")


def run(name: str, options: list[str], binary: bytes) -> str:
    """Run a tool on a binary and return its output; "" where it is missing or fails."""
    program = find(name)
    if not program:
        return ""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        try:
            command = [program, *options, file.name]
            process = subprocess.run(
                command,
                capture_output=True,
                timeout=TOOL_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
    return process.stdout.decode(errors="replace")
