"""What a kernel of the proof consists of, and how its text becomes a candidate."""

from __future__ import annotations

from dataclasses import dataclass, field

_CANDIDATE = '''import torch
import torch.nn as nn

from harness.native import load_cpp

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>
{source}
"""
lib = load_cpp(SOURCE, flags={flags!r})


class ModelNew(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
{parameters}
    def forward(self, {arguments}):
{forward}
'''


@dataclass(frozen=True)
class Kernel:
    """kind: the class of operators it stands for. task: the task's text. arguments: of forward.
    forward: its body, which calls `lib`. parameters: lines of the constructor. mutants: name ->
    (text, its replacement), in C++ or in forward. variants: honest rewritings in the same form.
    reduction: K, terms that meet in one output."""

    name: str
    kind: str
    task: str
    source: str
    arguments: str
    forward: str
    mutants: dict[str, tuple[str, str]]
    parameters: str = "pass"
    variants: dict[str, tuple[str, str]] = field(default_factory=dict)

    def candidate(self, old: str = "", new: str = "", flags: tuple[str, ...] = ()) -> str:
        """The candidate's text with one piece replaced once. Raises ValueError where the piece does
        not stand exactly once."""
        source, forward = self.source.strip(), self.forward.strip()
        if old:
            count = source.count(old) + forward.count(old)
            if count != 1:
                raise ValueError(
                    f"{self.name}: {old!r} stands {count} times in the kernel; name a piece that "
                    "stands once"
                )
            source, forward = source.replace(old, new), forward.replace(old, new)
        return _CANDIDATE.format(
            source=source,
            flags=flags,
            parameters=_indented(self.parameters),
            arguments=self.arguments,
            forward=_indented(forward),
        )


def _indented(text: str) -> str:
    return "\n".join(f"        {line}" for line in text.strip().splitlines()) + "\n"
