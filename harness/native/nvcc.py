"""nvcc, run for device code only (`-cubin`): host code in the text is parsed and left out."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from functools import lru_cache

from .building import NativeError, SourceRefused

# in the table of section names of an ELF file
_SYMBOL = re.compile(rb"\0\.text\.([A-Za-z_$][\w$.]*)(?=\0)")


def build(
    compiler: str,
    source: str,
    flags: Sequence[str],
    names: Sequence[str],
    folder: str,
    seconds: float,
) -> tuple[bytes, dict[str, str], str, str]:
    """Compile; returns (binary, symbols by name, PTX, log). Raises SourceRefused with the
    compiler's output, NativeError, TimeoutError."""
    path = os.path.join(folder, "kernel.cu")
    with open(path, "w") as file:
        file.write(source + _instances(names))
    os.utime(path, (0, 0))  # fixes __TIMESTAMP__, so that equal sources give equal binaries
    command = [
        compiler,
        "-cubin",
        *flags,
        "-Xptxas=-v",
        "--keep",
        "--keep-dir",
        folder,
        path,
        "-o",
        f"{folder}/kernel.cubin",
    ]
    try:
        process = subprocess.run(
            command,
            capture_output=True,
            cwd=folder,
            env={**os.environ, "TMPDIR": folder},
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"the compiler did not end within {seconds:.0f} s") from error
    log = process.stderr.decode(errors="replace").replace(f"{folder}/", "")
    if process.returncode:
        raise SourceRefused(f"{log}")
    with open(f"{folder}/kernel.cubin", "rb") as file:
        image = file.read()
    with open(f"{folder}/kernel.ptx", errors="replace") as file:
        ptx = file.read()
    symbols = {m.decode() for m in _SYMBOL.findall(image)}
    return image, {name: symbol_of(name, symbols) for name in names}, ptx, log


@lru_cache(maxsize=4)
def version(compiler: str) -> str:
    """Return for example "nvcc 13.0"; "nvcc" where the version is unknown."""
    try:
        process = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return "nvcc"
    release = re.search(r"release (\d+\.\d+)", process.stdout)
    return f"nvcc {release.group(1)}" if release else "nvcc"


def _instances(names: Sequence[str]) -> str:
    """Return host code that mentions the instances of templates, so that nvcc compiles them."""
    instances = [name for name in names if "<" in name]
    mentions = "".join(
        f"[[maybe_unused]] auto* kevolve_{i} = &{name};\n" for i, name in enumerate(instances)
    )
    return f"\nnamespace {{\n{mentions}}}\n" if instances else ""


def symbol_of(name: str, symbols: set[str]) -> str:
    """Return the kernel's symbol: its name (`extern "C"`), or the only mangled name that contains
    it. Raises NativeError."""
    base, template, _ = name.partition("<")
    last = base.strip().split("::")[-1]
    if last in symbols and not template:
        return last
    pattern = re.compile(rf"_Z\w*?{len(last)}{last}{'I' if template else '(?!I)'}")
    matches = sorted(s for s in symbols if pattern.match(s))
    if len(matches) != 1:
        raise NativeError(
            f'nvcc compiled {len(matches)} kernels that can be {name!r}; wrap it in an extern "C" '
            "kernel, or install NVRTC, which can tell instances apart (pip install "
            "nvidia-cuda-nvrtc)"
        )
    return matches[0]
