"""Hints for a template's choices from what the reference computes: the alternatives, the likeliest
first."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.types import Task

from .expression import Value, translate
from .program import NotReadable, Program

Hints = Mapping[str, tuple[str, ...]]
"""Role -> its alternatives, the likeliest first; one alternative where the text decides."""


def packets(task: Task) -> dict[str, int]:
    """Return the count of each operator packet: "aten.mean.dim" counts as "aten.mean"."""
    counts: dict[str, int] = {}
    for name, count in task.operators.items():
        packet = ".".join(name.split(".")[:2])
        counts[packet] = counts.get(packet, 0) + count
    return counts


def hints_for(skill: str, program: Program, task: Task) -> Hints:
    """Return hints for a skill by its name, the same for its Triton counterpart; none for a skill
    whose ROLES contain the alternatives. Raises NotReadable when the text shows that the template
    computes something else."""
    recognizer = _RECOGNIZERS.get(skill.removeprefix("triton_"))
    return recognizer(program, task) if recognizer else {}


def _row_normalization(program: Program, task: Task) -> Hints:
    ran = packets(task)
    outputs = [len(c.outputs) for c in task.visible_cases if c.outputs]
    count = outputs[0] if outputs else 1
    speaks = (
        ran.keys() & {"aten.native_layer_norm", "aten.var", "aten.var_mean", "aten.std"}
        or ran.get("aten.mean", 0) > 1
    )
    centered: tuple[str, ...] = ("1", "0") if speaks else ("0", "1")
    returns: tuple[str, ...] = (
        ("normalized",) if count == 1 else ("normalized,sum", "sum,normalized")
    )
    if count > 2:
        raise NotReadable(f"{count} outputs; the template returns the normalised rows and the sum")
    try:
        results = translate(program)
    except NotReadable:
        return {"centered": centered, "returns": returns}  # both meanings are tried
    seen = {value.op for result in results for value in result.walk()}
    if unfit := seen & {
        "softmax",
        "exp",
        "matmul",
        "linear",
        "gelu",
        "silu",
        "sigmoid",
        "relu",
        "tanh",
        "clamp",
        "where",
        "maximum",
    }:
        raise NotReadable(
            f"the reference also computes {min(unfit)}; the template normalises rows and does "
            "nothing else"
        )
    if "layer_norm" in seen or "rms_norm" in seen:
        centered = ("1",) if "layer_norm" in seen else ("0",)
    elif not seen & {"var", "std", "sub"}:
        centered = ("0",)
    if count == 2 and len(results) == 2:
        plain = [_is_sum(r) for r in results]
        if plain == [False, True]:
            returns = ("normalized,sum",)
        elif plain == [True, False]:
            returns = ("sum,normalized",)
    return {"centered": centered, "returns": returns}


def _is_sum(value: Value) -> bool:
    return value.op == "input" or (value.op == "add" and all(a.op == "input" for a in value.args))


def _softmax_cross_entropy(program: Program, task: Task) -> Hints:
    source = task.source
    for word in ("label_smoothing", "weight="):
        if word in source:
            raise NotReadable(
                f"the reference uses {word.rstrip('=')}, which the template does not compute"
            )
    shapes = {len(c.outputs[0].shape) for c in task.visible_cases if c.outputs}
    if shapes == {1}:
        return {"reduction": ("none",)}
    try:
        seen = [value for result in translate(program) for value in result.walk()]
    except NotReadable:
        return {"reduction": ("mean", "sum")}  # both meanings are tried
    losses = [v for v in seen if v.op in ("cross_entropy", "nll_loss")]
    said = {str(v.option("reduction", "mean")) for v in losses} - {"none"} | {
        v.op for v in seen if v.op in ("mean", "sum")
    }
    return {
        "reduction": ("sum",)
        if said == {"sum"}
        else ("mean",)
        if said == {"mean"}
        else ("mean", "sum")
    }


_RECOGNIZERS: dict[str, Callable[[Program, Task], Hints]] = {
    "row_normalization": _row_normalization,
    "softmax_cross_entropy": _softmax_cross_entropy,
}
