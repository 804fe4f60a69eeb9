"""Parses the answers of untrusted processes. An invalid answer is a finding about the process,
never an error of the judge."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from ...assembly import Inside
from ...types import CodecError, Operator, from_json
from ...wire.launches import KERNELS, Captured
from ...workers import dataflow
from ..errors import Interfered

DEEPEST = 100  # levels of an answer; inputs of a task may be nested, but not this deeply
LARGEST = 1 << 60  # the largest figure: 36 years in nanoseconds
MOST_BODIES, MOST_CALLED = 100, 200  # loops of a library; functions of a candidate
MOST_COUNT = 1 << 31  # the limit on a kernel's figures: threads, bytes, launches
_OPERATOR = ("name", "reads", "axes", "extent")
_AXES = ("", "all", "last", "inner", "mixed")
_KINDS = ("ptx", "sass", "amdgcn")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_ENDLESS = re.compile(
    r"\b(?:REG|STACK|LOCAL|SHARED):\d{10}|_(?:count|size):\s+\d{10}"
)  # too long figures in texts that the architectures parse


def printable(text: str) -> str:
    """Replace control characters, which could control a terminal, and halves of surrogate pairs,
    which cannot be encoded."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def parse(text: str | bytes) -> Any:
    """Parse JSON. Raises Interfered for anything else, and for values nested too deeply."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Interfered(f"its answer is not JSON: {str(error)[:200]}") from error
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        level = [
            v
            for node in level
            if isinstance(node, (list, dict))
            for v in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return value
    raise Interfered(f"its answer is nested more than {DEEPEST} levels deep")


def read_file(fd: int, size: int, most: int) -> bytes:
    """Return what a process has written to a file, by its own account so many bytes. Raises
    Interfered."""
    if not 0 <= size <= most:
        raise Interfered(f"it reported a file of {size} bytes")
    return os.pread(fd, size, 0)


def check_range(figures: tuple[int, ...]) -> None:
    """Raise Interfered for times, counts and sizes that are negative or impossibly large."""
    if bad := [f for f in figures if not 0 <= f <= LARGEST]:
        raise Interfered(f"a reply with the figure {bad[0]}")


def read_counts(reply: Any) -> dict[str, tuple[int, int, int]]:
    """Return the candidate process's counts of the framework's operators: calls, elements,
    nanoseconds by name. Invalid entries are left out."""
    return {
        printable(name)[:200]: (entry[0], entry[1], entry[2])
        for name, entry in (reply.items() if isinstance(reply, dict) else ())
        if isinstance(entry, list)
        and len(entry) == 3
        and all(isinstance(v, int) and 0 <= v <= LARGEST for v in entry)
    }


def read_graph(reply: Any) -> tuple[tuple[Operator, ...], str]:
    """Return the graph that a task's process reports, or why there is none."""
    rows, problem = (
        (reply.get("graph"), reply.get("problem")) if isinstance(reply, dict) else (None, "")
    )
    if problem or not isinstance(rows, list) or len(rows) > dataflow.MOST:
        return (), printable(str(problem or "no list of operators was reported"))[:300]
    try:
        operators = tuple(
            from_json(Operator, dict(zip(_OPERATOR, row, strict=True))) for row in rows
        )
    except (CodecError, TypeError, ValueError) as error:
        return (), printable(f"an operator cannot be read: {error}")[:300]
    good = all(
        len(o.name) < 100 and o.axes in _AXES and 0 <= o.extent <= LARGEST and len(o.reads) < 100
        for o in operators
    )
    good &= all(-2 <= read < place for place, o in enumerate(operators) for read in o.reads)
    return (operators, "") if good else ((), "an operator's figures are impossible")


def read_kernels(data: bytes) -> list[Captured]:
    """Return the kernels that a candidate's process reports as launched. Raises Interfered."""
    entries = parse(data)
    if not isinstance(entries, list) or len(entries) > KERNELS:
        raise Interfered(f"its report of kernels is not a list of at most {KERNELS} kernels")
    try:
        kernels = [from_json(Captured, _clean(entry)) for entry in entries]
    except CodecError as error:
        raise Interfered(f"its report of kernels cannot be read: {str(error)[:200]}") from error
    for kernel in kernels:
        figures = (
            kernel.num_warps, kernel.num_stages, kernel.num_ctas, kernel.shared, kernel.tensor,
            kernel.launches, *kernel.grid, *kernel.block,
        )  # fmt: skip
        texts = [kernel.resources, kernel.texts.get("amdgcn", "")]
        good = (
            all(0 <= f < MOST_COUNT for f in figures) and len(kernel.grid) == len(kernel.block) == 3
        )
        if (
            not good
            or not set(kernel.texts) <= set(_KINDS)
            or any(_ENDLESS.search(text) for text in texts)
        ):
            raise Interfered(
                f"its report of the kernel {kernel.name[:100]!r} has impossible sizes or kinds of "
                "text"
            )
    return kernels


def read_inside(listing: str) -> Inside:
    """Return the compiler process's analysis of a library. Raises Interfered."""
    report = parse(listing)
    try:
        library = from_json(Inside, _clean(report))
    except CodecError as error:
        raise Interfered(f"its analysis of the code cannot be read: {str(error)[:200]}") from error
    bodies = [body for function in library.functions.values() for body in function.bodies]
    figures = [
        f
        for b in bodies
        for f in (b.line, b.bits, b.lanes, b.cycles or 0.0, *b.facts.values(), *b.pressure.values())
    ]
    if len(bodies) > MOST_BODIES or not all(-1 <= f < MOST_COUNT for f in figures):
        raise Interfered("its analysis of the code has impossible counts, or too many loops")
    return library


def read_calls(reply: Any) -> dict[str, dict[str, int]]:
    """Return the calls that the candidate's process reports, by identity of the build and name of
    the function. Invalid entries are left out."""
    counts: dict[str, dict[str, int]] = {}
    for entry in reply[:MOST_CALLED] if isinstance(reply, list) else ():
        if (
            isinstance(entry, list)
            and len(entry) == 3
            and [type(v) for v in entry] == [str, str, int]
            and 0 < entry[2] <= LARGEST
        ):
            counts.setdefault(entry[0], {})[printable(entry[1])[:200]] = entry[2]
    return counts


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_clean(v) for v in value]
    return {printable(k): _clean(v) for k, v in value.items()} if isinstance(value, dict) else value
