"""Binding the roles of a kernel template to a task's inputs, parameters and numbers.

A template names its roles in a literal ROLES:

    "rows", "rows?"    a floating tensor of the first output's (or first input's) shape; with ? it
                       may be absent
    "matrix"           a floating tensor of two dimensions
    "cols", "cols?"    a floating vector as long as the last dimension
    "row index"        an int64 vector as long as the first dimension
    "scalar"           a small positive number such as an epsilon
    "number"           a number given by keyword under the role's own name; the template's default
                       where there is none
    "output dtype"     decided: the dtype of the outputs, or "input" where it is always the first
                       input's
    "choice A B …"     alternatives of meaning; each is tried, the likeliest first (`hints`)

Floating means one of the dtypes in the skill's pattern, float32 where it names none. Every tensor
of the task must get a role: an unused input means that the template computes something else.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.types import Case, Task, TensorSpec

from .program import NotReadable, Program, number

_SUBTRACTED = ("bias", "beta", "shift", "offset")


@dataclass(frozen=True)
class Binding:
    """A binding. arguments: role -> Python expression for the call. choices: role -> decided text,
    plus 1 or 0 for each optional role."""

    arguments: dict[str, str]
    choices: dict[str, int | str]

    def describe(self) -> str:
        bound = ", ".join(f"{role} = {text}" for role, text in self.arguments.items())
        decided = ", ".join(
            f"{k} = {v}"
            for k, v in self.choices.items()
            if isinstance(v, str) or k not in self.arguments
        )
        return f"{bound}; {decided}" if decided else bound


@dataclass(frozen=True)
class Offer:
    """One tensor of the task: its expression in forward, its spec in every visible case."""

    expression: str
    specs: tuple[TensorSpec, ...]
    parameter: bool = False


def bindings(
    roles: Mapping[str, str],
    program: Program,
    task: Task,
    hints: Mapping[str, tuple[str, ...]],
    floating: Sequence[str],
) -> list[Binding]:
    """Return all bindings, the likeliest first. Raises NotReadable naming the role that stays empty
    or the tensor that stays unused."""
    cases = [c for c in task.visible_cases if c.inputs and c.outputs]
    if not cases:
        raise NotReadable("no case with known shapes")
    offers = [
        Offer(name, tuple(c.inputs[i] for c in cases))
        for i, name in enumerate(program.arguments)
        if all(i < len(c.inputs) for c in cases)
    ]
    offers += [
        Offer(name, (spec,) * len(cases), parameter=True)
        for name, spec in parameter_specs(task).items()
    ]
    main = next(
        (
            o
            for o in offers
            if not o.parameter and o.specs[0].dtype in floating and len(o.specs[0].shape) > 1
        ),
        None,
    )
    arguments: dict[str, str] = {}
    present: dict[str, int | str] = {}
    for role, kind in sorted(roles.items(), key=lambda r: r[1].endswith("?")):
        optional = kind.endswith("?")
        if kind.startswith("choice") or kind in ("scalar", "number", "output dtype"):
            continue
        fitting = [o for o in offers if _fits(kind.removesuffix("?"), o, main, floating)]
        wanted = (
            _preferred(role, fitting) if optional or len(fitting) > 1 else next(iter(fitting), None)
        )
        if wanted is None and not optional:
            raise NotReadable(f"no tensor of the task fits the role {role!r} ({kind})")
        if wanted is not None:
            offers.remove(wanted)
            arguments[role] = wanted.expression
        if optional:
            present[role] = int(wanted is not None)
    if offers:
        raise NotReadable(
            f"{offers[0].expression} ({offers[0].specs[0]}) has no role in the template"
        )
    for role, kind in roles.items():
        if kind in ("scalar", "number"):
            value = _number(role, kind, program)
            if value is not None:
                arguments[role] = value
        elif kind == "output dtype":
            present[role] = _output_dtype(cases, main)
    names = [role for role, kind in roles.items() if kind.startswith("choice")]
    texts = [hints.get(role) or tuple(roles[role].split()[1:]) for role in names]
    if any(not t for t in texts):
        raise NotReadable(
            "the template gives no alternatives for "
            f"{names[[bool(t) for t in texts].index(False)]!r}"
        )
    ordered = {role: arguments[role] for role in roles if role in arguments}
    return [
        Binding(
            ordered,
            {
                **present,
                **{n: int(t) if t.isdigit() else t for n, t in zip(names, chosen, strict=True)},
            },
        )
        for chosen in itertools.product(*texts)
    ]


def parameter_specs(task: Task) -> dict[str, TensorSpec]:
    """Return "self.weight" -> spec from the task's "weight float32[4096]". Raises NotReadable on
    another form."""
    specs: dict[str, TensorSpec] = {}
    for text in task.parameters:
        name, _, rest = text.strip().partition(" ")
        dtype, bracket, shape = rest.strip().rstrip("]").partition("[")
        if not bracket:
            raise NotReadable(f"the parameter {text!r} does not read as 'name dtype[shape]'")
        specs[f"self.{name}"] = TensorSpec(
            tuple(int(s) for s in shape.split(",") if s.strip()), dtype, (), 0
        )
    return specs


def _output_dtype(cases: Sequence[Case], main: Offer | None) -> str:
    dtypes = [spec.dtype for case in cases for spec in case.outputs[:1]]
    if any(spec.dtype != case.outputs[0].dtype for case in cases for spec in case.outputs):
        raise NotReadable("the outputs differ in dtype")
    if main is not None and [s.dtype for s in main.specs] == dtypes:
        return "input"
    if len(set(dtypes)) > 1:
        raise NotReadable(
            f"the output's dtype differs from case to case ({', '.join(sorted(set(dtypes)))})"
        )
    return dtypes[0]


def _fits(kind: str, offer: Offer, reference: Offer | None, floating: Sequence[str]) -> bool:
    for index, spec in enumerate(offer.specs):
        shape = spec.shape
        main = reference.specs[index].shape if reference is not None else None
        fits = {
            "rows": not offer.parameter
            and spec.dtype in floating
            and len(shape) > 0
            and (main is None or shape == main),
            "matrix": not offer.parameter and spec.dtype in floating and len(shape) == 2,
            "row index": spec.dtype == "int64"
            and len(shape) == 1
            and (main is None or shape[0] == main[0]),
            "cols": spec.dtype in floating
            and len(shape) == 1
            and (main is None or shape[0] == main[-1]),
        }.get(kind)
        if fits is None:
            raise NotReadable(f"the template's role kind {kind!r} is not known")
        if not fits:
            return False
    return True


def _preferred(role: str, fitting: list[Offer]) -> Offer | None:
    """The offer whose name suggests the role; a bias-like name rules out every other role."""
    words = _SUBTRACTED if role in _SUBTRACTED else (role,)
    named = [o for o in fitting if any(w in o.expression.lower() for w in words)]
    if named:
        return named[0]
    rest = [
        o
        for o in fitting
        if role not in _SUBTRACTED and not any(w in o.expression.lower() for w in _SUBTRACTED)
    ]
    return (
        next(iter(rest), None)
        if rest or role not in _SUBTRACTED
        else (fitting[0] if len(fitting) > 0 else None)
    )


def _number(role: str, kind: str, program: Program) -> str | None:
    """The expression of a number: an attribute, a keyword or a literal; None to use the template's
    default."""
    for node in ast.walk(program.forward):
        if isinstance(node, ast.keyword) and node.arg == role:
            known = number(node.value)
            return (
                ast.unparse(node.value)
                if known is not None or ast.unparse(node.value) in program.scalars
                else None
            )
    if kind == "number":
        return next((name for name in program.scalars if name.endswith(f".{role}")), None)
    exact = [
        n
        for n in program.scalars
        if n.rsplit(".", 1)[-1].lstrip("_")
        in (role, "epsilon", "variance_epsilon", "layer_norm_eps")
    ]
    near = [n for n, v in program.scalars.items() if v is not None and 0 < v <= 0.01]
    if exact or near:
        return (exact or near)[0]
    for path, module in program.submodules.items():
        if module.kind in ("LayerNorm", "RMSNorm"):
            return (
                f"{path}.eps"
                if module.kind == "LayerNorm"
                else f"({path}.eps if {path}.eps is not None else torch.finfo(torch.float32).eps)"
            )
    literals = [
        n.value
        for n in ast.walk(program.forward)
        if isinstance(n, ast.Constant) and isinstance(n.value, float) and 0 < n.value <= 0.01
    ]
    return repr(literals[0]) if literals else None
