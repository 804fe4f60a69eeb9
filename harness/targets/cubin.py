"""The output of NVIDIA's compilers about one binary, split by kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ENTRY = re.compile(
    r"^(?:\.(?:visible|weak)\s+)?\.entry\s+([\w$]+)\s*\(.*?(?=^\.(?:visible|weak|entry|func|"
    r"extern|global|const|shared|alias)\b|\Z)",
    re.MULTILINE | re.DOTALL,
)
_CODE = re.compile(r"^\.text\.([\w$.]+):\n(.*?)(?=^//-{8}|\Z)", re.MULTILINE | re.DOTALL)
_COMPILED = re.compile(
    r"Compiling entry function '([\w$]+)' for '\w+'(.*?)(?=Compiling entry function|\Z)", re.DOTALL
)


@dataclass(frozen=True)
class KernelListing:
    """The texts of one kernel, "" where unknown. resources: registers, stack and the kernel's own
    shared memory, in cuobjdump's format."""

    ptx: str = ""
    sass: str = ""
    resources: str = ""


def split(ptx: str, sass: str, log: str) -> dict[str, KernelListing]:
    """Split the texts by symbol. ptx: that of the whole module. sass: the output of `nvdisasm -c`.
    log: the output of `ptxas -v`."""
    entries = {m.group(1): m.group(0).strip() for m in _ENTRY.finditer(ptx)}
    codes = dict(_CODE.findall(sass))
    words = {name: _resources(text) for name, text in _COMPILED.findall(log)}
    return {
        n: KernelListing(entries.get(n, ""), codes.get(n, ""), words.get(n, ""))
        for n in {**entries, **codes, **words}
    }


def own_shared(resources: str) -> int:
    """Return the bytes of shared memory that a kernel declares."""
    return sum(int(n) for n in re.findall(r"\bSHARED:(\d+)", resources))


def _resources(text: str) -> str:
    """Convert to cuobjdump's format: "Used 40 registers, 4096 bytes smem", "8 bytes stack frame" ->
    "REG:40 STACK:8 SHARED:4096"."""
    patterns = (
        ("REG", r"Used (\d+) registers"),
        ("STACK", r"(\d+) bytes stack frame"),
        ("SHARED", r"(\d+) bytes smem"),
    )
    matches = ((name, re.search(pattern, text)) for name, pattern in patterns)
    return " ".join(f"{name}:{match.group(1)}" for name, match in matches if match)
