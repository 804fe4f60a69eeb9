"""A report on compiled kernels for a reader: one row per kernel, a summary, signals, listings.
Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...languages.device import LOW_OCCUPANCY
from ...targets import Architecture, Binary, Facts
from ...types import Signal
from ...wire.launches import Captured

LISTINGS_CHARS = 600_000  # of all listings of an evaluation together


def describe(
    kernels: Sequence[Captured], architecture: Architecture
) -> tuple[dict[str, Any], list[Signal]]:
    """Return (data of the stage, signals). data: "kernels" (rows), "static" (figures of the whole
    candidate), "listings" ("name/sass" -> text)."""
    kernels = _merge(kernels)
    read = [
        architecture.read(Binary(max(1, k.num_warps), k.shared, k.tensor, k.texts, k.resources))
        for k in kernels
    ]
    labels = _labels(kernels)
    data = {
        "kernels": [_row(label, k, f) for label, k, f in zip(labels, kernels, read, strict=True)],
        "static": _summary(kernels, read),
        "listings": _listings(labels, kernels),
    }
    return data, _signals(kernels, read)


def unloadable(kernels: Sequence[Captured]) -> Captured | None:
    """Return a kernel of which the driver would load no specialization, even if the host code
    continued without it; None if there is none."""
    for name in dict.fromkeys(k.name for k in kernels):
        family = [k for k in kernels if k.name == name]
        if all(k.refused for k in family):
            return family[0]
    return None


def _merge(kernels: Sequence[Captured]) -> list[Captured]:
    """Merge specializations that were compiled to the same code."""
    by_code: dict[str, Captured] = {}
    for k in kernels:
        key = repr(
            (
                k.name,
                k.num_warps,
                k.num_stages,
                k.num_ctas,
                k.shared,
                k.block,
                k.constants,
                k.refused,
                k.texts,
            )
        )
        if not k.texts or key not in by_code:
            by_code[key if k.texts else f"{key}{len(by_code)}"] = k
            continue
        twin = by_code[key]
        by_code[key] = replace(
            twin,
            launches=twin.launches + k.launches,
            tuning=twin.tuning and k.tuning,
            grid=k.grid if twin.tuning and not k.tuning else twin.grid,
            cases=tuple(dict.fromkeys((*twin.cases, *k.cases))),
        )
    return list(by_code.values())


def _signals(kernels: Sequence[Captured], read: Sequence[Facts]) -> list[Signal]:
    """Return signals about each kernel's best configuration: only a measurement on the device can
    tell which one runs."""
    spilled, low = [], []
    for name in dict.fromkeys(k.name for k in kernels):
        family = [
            (k, f) for k, f in zip(kernels, read, strict=True) if k.name == name and not k.refused
        ]
        kernel, best = min(family, key=lambda pair: (pair[1].spilled, -pair[1].occupancy.fraction))
        if best.spilled:
            counts = ", ".join(
                f"{n} {v}" for n, v in {**best.spills, "stack bytes": best.stack_bytes}.items() if v
            )
            spilled.append(
                Signal(
                    "register_spill",
                    f"{name} ({_configuration(kernel)}) spills: {counts}",
                    _evidence(best),
                )
            )
        if best.occupancy.fraction < LOW_OCCUPANCY:
            o = best.occupancy
            text = (
                f"{name} ({_configuration(kernel)}): {o.blocks} blocks of {kernel.num_warps} warps "
                f"fit a multiprocessor, {o.fraction:.0%} of its warps, limited by {o.limiter}"
            )
            if best.matrix:
                text += (
                    "; usual for a pipelined kernel on matrix units, but a loss for a kernel that "
                    "waits for memory"
                )
            low.append(Signal("low_occupancy", text, _evidence(best)))
    return [*spilled[:1], *low[:1]]


def _evidence(facts: Facts) -> dict[str, float]:
    values = {
        **facts.registers,
        **{f"spill_{k}": v for k, v in facts.spills.items()},
        "stack_bytes": facts.stack_bytes,
    }
    return {**{k: float(v) for k, v in values.items()}, "occupancy": facts.occupancy.fraction}


def _configuration(kernel: Captured) -> str:
    if any(kernel.block):
        return f"block={' x '.join(str(n) for n in _without_ones(kernel.block))}"
    constants = [f"{k}={v}" for k, v in kernel.constants.items() if len(v) < 12][:6]
    return ", ".join(
        [*constants, f"num_warps={kernel.num_warps}", f"num_stages={kernel.num_stages}"]
    )


def _without_ones(sizes: tuple[int, ...]) -> tuple[int, ...]:
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes = sizes[:-1]
    return sizes


def _labels(kernels: Sequence[Captured]) -> list[str]:
    """Return unique names: the second specialization of a kernel is "name#2"."""
    counts: dict[str, int] = {}
    labels = []
    for kernel in kernels:
        counts[kernel.name] = counts.get(kernel.name, 0) + 1
        labels.append(
            kernel.name if counts[kernel.name] == 1 else f"{kernel.name}#{counts[kernel.name]}"
        )
    return labels


def _row(label: str, kernel: Captured, facts: Facts) -> dict[str, Any]:
    o = facts.occupancy
    return {
        "kernel": label,
        "configuration": _configuration(kernel),
        "signature": kernel.signature,
        "constants": kernel.constants,
        "cases": list(kernel.cases),
        "launches": kernel.launches,
        "autotuned_alternative": kernel.tuning,
        "grid": list(kernel.grid),
        "block": list(kernel.block),
        "num_warps": kernel.num_warps,
        "num_stages": kernel.num_stages,
        "num_ctas": kernel.num_ctas,
        "registers": facts.registers,
        "spills": facts.spills,
        "stack_bytes": facts.stack_bytes,
        "shared_bytes": kernel.shared,
        "tensor_memory_columns": kernel.tensor,
        "occupancy": {
            "fraction": round(o.fraction, 4), "blocks": o.blocks, "warps": o.warps,
            "of": o.max_warps, "limiter": o.limiter, "blocks_by_resource": o.limits,
        },
        "instructions": facts.mix,
        "matrix_instructions": facts.matrix,
        "global_access_bits": facts.widths,
        "refused": kernel.refused,
    }  # fmt: skip


def _summary(kernels: Sequence[Captured], read: Sequence[Facts]) -> dict[str, float]:
    """Return figures of the whole candidate: the worst of the kernels that would run, without
    autotuned alternatives."""
    used = [(k, f) for k, f in zip(kernels, read, strict=True) if not k.tuning] or list(
        zip(kernels, read, strict=True)
    )
    if not used:
        return {"kernels": 0.0}
    return {
        "kernels": float(len(kernels)),
        "registers": float(
            max((v for _, f in used for n, v in f.registers.items() if n != "sgpr"), default=0)
        ),
        "spills": float(sum(sum(f.spills.values()) for _, f in used)),
        "shared_bytes": float(max(k.shared for k, _ in used)),
        "occupancy": min(f.occupancy.fraction for _, f in used),
        "matrix_instructions": float(sum(sum(f.matrix.values()) for _, f in used)),
        "instructions": float(sum(f.mix.get("total", 0) for _, f in used)),
    }


def _listings(labels: list[str], kernels: Sequence[Captured]) -> dict[str, str]:
    """Return "name/sass" -> text until the room is used up; kernels that run come before those that
    were only tried."""
    room, listings = LISTINGS_CHARS, {}
    for label, kernel in sorted(zip(labels, kernels, strict=True), key=lambda pair: pair[1].tuning):
        for kind, text in kernel.texts.items():
            if len(text) <= room:
                listings[f"{label}/{kind}"] = text
                room -= len(text)
    return listings
