"""Rules that make a transcription mistake of one expression: each takes a node of the syntax tree
and gives what may stand in its place."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Place = str  # "forward": where values are computed; "init": in a constructor
Rule = Callable[[ast.AST, Place], Iterator[str]]

_ACTIVATIONS = {
    "relu": "leaky_relu", "leaky_relu": "relu", "gelu": "silu", "silu": "relu",
    "sigmoid": "hardsigmoid", "hardsigmoid": "sigmoid", "tanh": "hardtanh", "hardtanh": "tanh",
    "softplus": "relu", "elu": "relu", "selu": "elu", "mish": "silu", "hardswish": "silu",
    "softsign": "tanh", "logsigmoid": "softplus", "softmax": "log_softmax",
    "log_softmax": "softmax",
}  # fmt: skip
_MODULES = {
    "ReLU": "LeakyReLU()", "LeakyReLU": "ReLU()", "GELU": "SiLU()", "SiLU": "ReLU()",
    "Sigmoid": "Hardsigmoid()", "ReLU6": "ReLU()", "Hardsigmoid": "Sigmoid()", "Tanh": "Hardtanh()",
    "Hardtanh": "Tanh()", "Softplus": "ReLU()", "ELU": "ReLU()", "SELU": "ELU()", "Mish": "SiLU()",
    "Hardswish": "SiLU()", "Softsign": "Tanh()",
}  # fmt: skip
_REDUCTIONS = {
    "sum": "mean", "mean": "sum", "max": "min", "min": "max", "amax": "amin", "amin": "amax",
    "argmax": "argmin", "argmin": "argmax", "cumsum": "cumprod", "cumprod": "cumsum", "std": "var",
    "var": "std",
}  # fmt: skip
_POOLS = {"MaxPool": "AvgPool", "AvgPool": "MaxPool"}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
}
_LOSSES = ("loss", "Loss", "cross_entropy", "kl_div")
_NORMS = ("BatchNorm", "InstanceNorm", "GroupNorm", "LayerNorm")


def _activation(node: ast.AST, place: Place) -> Iterator[str]:
    name = _called(node)
    if isinstance(node, ast.Call) and name in _ACTIVATIONS and place == "forward":
        kept = [k for k in node.keywords if k.arg == "dim"] if "softmax" in name else []
        arguments = _text(
            ast.Call(ast.Name("f"), node.args[:1] if "softmax" not in name else node.args, kept)
        )[2:-1]
        if node.args:
            yield f"torch.nn.functional.{_ACTIVATIONS[name]}({arguments})"
    if name in _MODULES and place == "init":
        yield f"torch.nn.{_MODULES[name]}"


def _axis(node: ast.AST, place: Place) -> Iterator[str]:
    for at, keyword in enumerate(node.keywords if isinstance(node, ast.Call) else ()):
        if keyword.arg in ("dim", "axis"):
            constant = _number(keyword.value)
            others = [n for n in (1, 0, -1, 2) if n != constant] if constant is not None else []
            for value in [*map(str, others), *([] if others else [f"{_text(keyword.value)} - 1"])]:
                changed = copy.deepcopy(node)
                changed.keywords[at].value = ast.parse(value, mode="eval").body
                yield _text(changed)


def _constant(node: ast.AST, place: Place) -> Iterator[str]:
    """A number that a value is computed with: a tenth larger; a power: one more."""
    if not isinstance(node, (ast.BinOp, ast.keyword)) or (
        place != "forward" and isinstance(node, ast.BinOp)
    ):
        return
    if isinstance(node, ast.keyword):
        if node.arg in (
            "eps",
            "negative_slope",
            "alpha",
            "beta",
            "min",
            "max",
            "min_val",
            "max_val",
            "threshold",
        ) and (value := _number(node.value)) not in (None, 0):
            yield f"{node.arg}={value * (10 if node.arg == 'eps' else 1.1)!r}"
        return
    for side in ("left", "right"):
        value = _number(getattr(node, side))
        if value in (None, 0):
            continue
        changed = copy.deepcopy(node)
        new = value + 1 if isinstance(node.op, ast.Pow) else value * 1.1
        setattr(changed, side, ast.parse(repr(new), mode="eval").body)
        yield _text(changed)


def _dropped_term(node: ast.AST, place: Place) -> Iterator[str]:
    if (
        isinstance(node, ast.BinOp)
        and place == "forward"
        and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div))
    ):
        yield from (_text(side) for side in (node.left, node.right) if _number(side) is None)


def _skipped_step(node: ast.AST, place: Place) -> Iterator[str]:
    """A call of one tensor returns it as it was."""
    if (
        isinstance(node, ast.Call)
        and place == "forward"
        and node.args
        and isinstance(node.args[0], (ast.Name, ast.Call))
    ):
        yield _text(node.args[0])


def _operator(node: ast.AST, place: Place) -> Iterator[str]:
    if isinstance(node, ast.BinOp) and place == "forward" and type(node.op) in _OPERATORS:
        yield _text(ast.BinOp(node.left, _OPERATORS[type(node.op)](), node.right))


def _reduction(node: ast.AST, place: Place) -> Iterator[str]:
    if isinstance(node, ast.Call) and place == "forward" and (name := _called(node)) in _REDUCTIONS:
        changed = copy.deepcopy(node)
        assert isinstance(changed.func, ast.Attribute)
        changed.func.attr = _REDUCTIONS[name]
        yield _text(changed)
    if isinstance(node, ast.Call) and _called(node).endswith(_LOSSES):
        yield _with(node, reduction="'sum'")


def _operands(node: ast.AST, place: Place) -> Iterator[str]:
    if (
        isinstance(node, ast.Call)
        and place == "forward"
        and _called(node) in ("matmul", "bmm", "mm")
        and len(node.args) == 2
    ):
        yield _text(ast.Call(node.func, node.args[::-1], node.keywords))
    if (
        isinstance(node, ast.BinOp)
        and place == "forward"
        and isinstance(node.op, (ast.Sub, ast.Div, ast.MatMult))
    ):
        yield _text(ast.BinOp(node.right, node.op, node.left))


def _off_by_one(node: ast.AST, place: Place) -> Iterator[str]:
    """An index of a tensor, or how often a loop runs."""
    if place != "forward":
        return
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for at, part in enumerate(parts):
            value = _number(part)
            if isinstance(value, int):
                changed = copy.deepcopy(node)
                new = ast.parse(str(value - 1 if value < 0 else value + 1), mode="eval").body
                if isinstance(changed.slice, ast.Tuple):
                    changed.slice.elts[at] = new
                else:
                    changed.slice = new
                yield _text(changed)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        changed = copy.deepcopy(node)
        at = 0 if len(node.args) == 1 else 1
        changed.args[at] = ast.BinOp(node.args[at], ast.Sub(), ast.Constant(1))
        yield _text(changed)


def _transposition(node: ast.AST, place: Place) -> Iterator[str]:
    if place != "forward":
        return
    if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield _text(node.value)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("t", "transpose", "permute", "flip")
    ):
        yield _text(
            node.args[0] if _text(node.func.value) == "torch" and node.args else node.func.value
        )


def _setting(node: ast.AST, place: Place) -> Iterator[str]:
    """What a layer is made with, where that changes neither shapes nor parameters."""
    name = _called(node)
    if isinstance(node, ast.Call) and name == "scaled_dot_product_attention":
        yield _with(node, scale="1.0")
        yield _with(node, is_causal="True")
    if not isinstance(node, ast.Call) or place != "init":
        return
    if name.startswith("Conv") and "Transpose" not in name:
        yield _with(node, padding_mode="'circular'")
    if name.startswith(_NORMS):
        yield _with(node, eps="0.01")
    if name == "GroupNorm" and node.args:
        yield _text(ast.Call(node.func, [ast.Constant(1), *node.args[1:]], node.keywords))
    if name.startswith("AvgPool"):
        yield _with(node, count_include_pad="False")
    for pool, other in _POOLS.items():
        if name.startswith(pool):
            allowed = [k for k in node.keywords if k.arg in ("kernel_size", "stride", "padding")]
            arguments = _text(ast.Call(ast.Name("f"), node.args[:3], allowed))[2:-1]
            yield f"torch.nn.{other}{name.removeprefix(pool)}({arguments})"


def _part_missing(node: ast.AST, place: Place) -> Iterator[str]:
    """The first index of an axis of what a layer is given counts as zero."""
    if (
        isinstance(node, ast.Call)
        and place == "forward"
        and _text(node.func).startswith("self.")
        and len(node.args) == 1
    ):
        given = _text(node.args[0])
        if isinstance(node.args[0], ast.Name):
            for axis in (1, -1):
                first, rest = (
                    f"{given}.narrow({axis}, 0, 1)",
                    f"{given}.narrow({axis}, 1, {given}.shape[{axis}] - 1)",
                )
                yield f"{_text(node.func)}(torch.cat([torch.zeros_like({first}), {rest}], {axis}))"


def _further(node: ast.AST, place: Place) -> Iterator[str]:
    """A layer reads one place further along the last axis, as with a padding that is off by one to
    each side."""
    if (
        isinstance(node, ast.Call)
        and place == "forward"
        and _text(node.func).startswith("self.")
        and len(node.args) == 1
    ):
        given = _text(node.args[0])
        if isinstance(node.args[0], ast.Name):
            yield f"{_text(node.func)}(torch.nn.functional.pad({given}[..., 1:], (0, 1)))"


def _result(node: ast.AST, place: Place) -> Iterator[str]:
    """The last column is never written, or each value lands one place further on."""
    if (
        isinstance(node, ast.Return)
        and place == "forward"
        and node.value is not None
        and not isinstance(node.value, ast.Tuple)
    ):
        value = _text(node.value)
        yield f"return torch.nn.functional.pad(({value})[..., :-1], (0, 1))"
        yield f"return torch.roll({value}, 1, -1)"


RULES: dict[str, Rule] = {
    "another activation": _activation,
    "another axis": _axis,
    "another constant": _constant,
    "a term dropped": _dropped_term,
    "a step skipped": _skipped_step,
    "another operator": _operator,
    "another reduction": _reduction,
    "operands swapped": _operands,
    "off by one": _off_by_one,
    "a transposition dropped": _transposition,
    "another setting of a layer": _setting,
    "a part of an input missing": _part_missing,
    "an input read one place further": _further,
    "results misplaced": _result,
}
ANYWHERE = "results misplaced"  # fits nearly every problem, and so says least
SKIPPED, STEPS = "a step skipped", 3  # of fewer steps a skipped one leaves next to nothing


@dataclass(frozen=True)
class Mistake:
    """rule: of RULES. line: of the text. old, new: what stood there and what stands there now.
    source: the whole text with it."""

    rule: str
    line: int
    old: str
    new: str
    source: str


def mistakes(source: str) -> list[Mistake]:
    """Every one that the rules make of a problem's text, in its order. Some change nothing, or do
    not run."""
    found = []
    text = source.encode()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, place in _places(ast.parse(source)):
        for rule, alternatives in RULES.items():
            for new in dict.fromkeys(alternatives(node, place)):
                begin, end = (
                    starts[node.lineno - 1] + node.col_offset,
                    starts[node.end_lineno - 1] + node.end_col_offset,
                )
                old = text[begin:end].decode()
                put = new if isinstance(node, (ast.stmt, ast.keyword)) else f"({new})"
                found.append(
                    Mistake(
                        rule,
                        node.lineno,
                        old,
                        new,
                        (text[:begin] + put.encode() + text[end:]).decode(),
                    )
                )
    return found


def _places(tree: ast.Module) -> Iterator[tuple[ast.AST, Place]]:
    """The nodes of all methods and functions, but those that make inputs."""
    for outer in tree.body:
        if isinstance(outer, ast.FunctionDef) and outer.name in ("get_inputs", "get_init_inputs"):
            continue
        for function in ast.walk(outer):
            if isinstance(function, ast.FunctionDef):
                place = "init" if function.name == "__init__" else "forward"
                for statement in function.body:
                    yield from (
                        (node, place) for node in ast.walk(statement) if hasattr(node, "lineno")
                    )


def _called(node: ast.AST) -> str:
    """The last word of what is called, "" where nothing is."""
    return (
        node.func.attr
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        else ""
    )


def _number(node: ast.AST) -> int | float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _number(node.operand)
        return None if value is None else -value
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _with(call: ast.Call, **settings: str) -> str:
    changed = copy.deepcopy(call)
    changed.keywords = [k for k in changed.keywords if k.arg not in settings]
    changed.keywords += [
        ast.keyword(name, ast.parse(value, mode="eval").body) for name, value in settings.items()
    ]
    return _text(changed)


def _text(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node)))
