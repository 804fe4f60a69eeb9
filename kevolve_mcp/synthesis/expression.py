"""A forward method as an expression graph: straight-line tensor code, translated statement by
statement.

Operators have torch's name however they were written (`torch.relu(x)`, `F.relu(x)`, `x.relu()`,
`self.act(x)` with an nn.ReLU are all "relu"). Code that is not understood raises NotReadable with
line and reason.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from .program import NotReadable, Program, number

Scalar = int | float | bool | str | None


@dataclass(frozen=True)
class Value:
    """op "input" (name), "attribute" ("self.weight"), "constant" (a scalar), or an operator over
    `args` with `options`."""

    op: str
    args: tuple[Value, ...] = ()
    name: str = ""
    constant: Scalar = None
    options: tuple[tuple[str, Value], ...] = ()

    def option(self, name: str, default: Scalar = None) -> Scalar:
        """Return the constant of a keyword argument."""
        return next((v.constant for k, v in self.options if k == name), default)

    def walk(self) -> list[Value]:
        """Return this value and every distinct value below it, operands first."""
        seen: dict[Value, None] = {}

        def visit(value: Value) -> None:
            if value in seen:
                return
            for child in (*value.args, *(v for _, v in value.options)):
                visit(child)
            seen[value] = None

        visit(self)
        return list(seen)


_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow",
    ast.MatMult: "matmul", ast.Mod: "remainder", ast.FloorDiv: "floor_divide",
    ast.BitAnd: "logical_and", ast.BitOr: "logical_or",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}
_MODULES = {
    "ReLU": "relu", "ReLU6": "relu6", "Sigmoid": "sigmoid", "Tanh": "tanh", "GELU": "gelu",
    "SiLU": "silu", "Mish": "mish", "Softplus": "softplus", "ELU": "elu", "LeakyReLU": "leaky_relu",
    "Hardswish": "hardswish", "Hardsigmoid": "hardsigmoid", "Hardtanh": "hardtanh",
    "Softsign": "softsign", "Identity": "identity", "LayerNorm": "layer_norm",
    "RMSNorm": "rms_norm", "Softmax": "softmax", "LogSoftmax": "log_softmax",
    "CrossEntropyLoss": "cross_entropy",
}  # fmt: skip
_MODULE_ARGUMENTS = {
    "elu": ("alpha",), "leaky_relu": ("negative_slope",), "hardtanh": ("min_val", "max_val"),
    "softplus": ("beta", "threshold"), "gelu": ("approximate",), "softmax": ("dim",),
    "log_softmax": ("dim",), "layer_norm": ("normalized_shape", "eps"),
    "rms_norm": ("normalized_shape", "eps"), "relu": ("inplace",), "silu": ("inplace",),
    "relu6": ("inplace",), "mish": ("inplace",),
}  # fmt: skip
# operators that do not change the element's value
_SAME = {"identity", "contiguous", "clone", "detach", "view_as", "expand_as", "alias"}
_ALIASES = {
    "clip": "clamp", "swish": "silu", "true_divide": "div", "divide": "div", "multiply": "mul",
    "subtract": "sub",
    "negative": "neg", "absolute": "abs", "greater": "gt", "less": "lt", "greater_equal": "ge",
    "less_equal": "le", "clamp_min": "maximum", "clamp_max": "minimum", "expit": "sigmoid",
    "not_equal": "ne",
}  # fmt: skip


def translate(program: Program) -> tuple[Value, ...]:
    """Return the outputs of forward, in order. Raises NotReadable."""
    return _Translator(program).run()


class _Translator:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.names: dict[str, Value] = {a: Value("input", name=a) for a in program.arguments}
        self.tuples: dict[str, tuple[Value, ...]] = {}

    def run(self) -> tuple[Value, ...]:
        for statement in self.program.forward.body:
            result = self.statement(statement)
            if result is not None:
                return result
        raise NotReadable("forward ends without a return")

    def statement(self, statement: ast.stmt) -> tuple[Value, ...] | None:
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Assert():
                return None
            case ast.Return(value=ast.Tuple(elts=items)) | ast.Return(value=ast.List(elts=items)):
                return tuple(self.value(i) for i in items)
            case ast.Return(value=ast.expr() as value):
                return (self.value(value),)
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                self.names[name] = self.value(value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=items)) if len(
                targets
            ) == len(items):
                values = [self.value(v) for v in items]
                for target, result in zip(targets, values, strict=True):
                    if not isinstance(target, ast.Name):
                        raise self.refuse(statement, "an assignment to something other than a name")
                    self.names[target.id] = result
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                self.names[name] = self.binary(
                    statement, op, self.load(statement, name), self.value(value)
                )
            case _:
                raise self.refuse(
                    statement,
                    f"a {type(statement).__name__} statement; straight-line assignments and a "
                    "return are understood",
                )
        return None

    def value(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as constant):
                return Value("constant", constant=constant)
            case ast.Name(id=name):
                return self.load(node, name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.value(operand)
                if inner.op == "constant" and isinstance(inner.constant, (int, float)):
                    return Value("constant", constant=-inner.constant)
                return Value("neg", (inner,))
            case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=operand):
                return Value("logical_not", (self.value(operand),))
            case ast.BinOp(left=left, op=op, right=right):
                known = number(node)
                if known is not None:
                    return Value("constant", constant=known)
                return self.binary(node, op, self.value(left), self.value(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return Value(_COMPARE[type(op)], (self.value(left), self.value(right)))
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return Value("list", tuple(self.value(i) for i in items))
            case ast.Subscript(value=inner, slice=ast.expr() as index):
                return Value("index", (self.value(inner),), name=ast.unparse(index))
        raise self.refuse(node, f"{ast.unparse(node)!r:.60}")

    def load(self, node: ast.AST, name: str) -> Value:
        if name in self.names:
            return self.names[name]
        text = self.program.constants.get(name)
        if text is not None:
            statement = ast.parse(text).body[0]
            if isinstance(statement, ast.Assign):
                known = number(statement.value)
                if known is not None:
                    return Value("constant", constant=known)
        raise self.refuse(node, f"the name {name!r}")

    def attribute(self, node: ast.Attribute) -> Value:
        path = ast.unparse(node)
        if path.startswith("self."):
            known = self.program.scalars.get(path)
            return (
                Value("attribute", name=path)
                if known is None
                else Value("attribute", name=path, constant=known)
            )
        if path in ("math.pi", "torch.pi"):
            return Value("constant", constant=3.141592653589793)
        if path in ("math.inf", "torch.inf"):
            return Value("constant", constant=float("inf"))
        if path.startswith("torch."):
            return Value("constant", constant=path)  # a dtype or the like
        # x.shape, x.T, x.dtype: operators here
        return Value(node.attr, (self.value(node.value),), name=node.attr)

    def binary(self, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
        name = _BINARY.get(type(op))
        if name is None:
            raise self.refuse(node, f"the operator {type(op).__name__}")
        return Value(name, (left, right))

    def call(self, node: ast.Call) -> Value:
        if any(isinstance(a, ast.Starred) for a in node.args) or any(
            k.arg is None for k in node.keywords
        ):
            raise self.refuse(node, "* or ** in a call")
        args = tuple(self.value(a) for a in node.args)
        options = tuple((k.arg or "", self.value(k.value)) for k in node.keywords)
        if not isinstance(node.func, ast.Attribute):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if any(
                name in text.replace(",", " ").split()
                for text in self.program.imports
                if text.startswith("from torch")
            ):
                return self.operator(name, args, options)
            known = number(node)
            if known is not None:
                return Value("constant", constant=known)
            raise self.refuse(node, f"a call of {ast.unparse(node.func)!r}")
        path = ast.unparse(node.func)
        if path in self.program.submodules:
            return self.submodule(node, path, args)
        owner = ast.unparse(node.func.value)
        if owner in ("torch", "F", "torch.nn.functional", "nn.functional", "torch.special"):
            return self.operator(node.func.attr, args, options)
        if owner == "math" and all(a.op == "constant" for a in args):
            return self.math(node, args)
        if owner == "self" or owner in self.program.submodules:
            raise self.refuse(node, f"a call of {path!r}")
        return self.operator(node.func.attr, (self.value(node.func.value), *args), options)

    def math(self, node: ast.Call, args: tuple[Value, ...]) -> Value:
        import math

        function = (
            getattr(math, node.func.attr, None) if isinstance(node.func, ast.Attribute) else None
        )
        numbers = [a.constant for a in args if isinstance(a.constant, (int, float))]
        try:
            result = function(*numbers) if callable(function) else None
        except (ValueError, TypeError, OverflowError) as error:
            raise self.refuse(node, f"{ast.unparse(node)!r} ({error})") from error
        if not isinstance(result, (int, float)):
            raise self.refuse(node, f"{ast.unparse(node)!r}")
        return Value("constant", constant=result)

    def operator(
        self, name: str, args: tuple[Value, ...], options: tuple[tuple[str, Value], ...]
    ) -> Value:
        name = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        name = _ALIASES.get(name, name)
        kept = tuple((k, v) for k, v in options if k != "inplace")
        if name in _SAME:
            return args[0]
        if name == "input" and kept:
            return kept[0][1]
        if args == () and kept and kept[0][0] == "input":
            args, kept = (kept[0][1],), kept[1:]
        return Value(name, args, options=kept)

    def submodule(self, node: ast.Call, path: str, args: tuple[Value, ...]) -> Value:
        module = self.program.submodules[path]
        name = _MODULES.get(module.kind)
        if name is None:
            raise self.refuse(node, f"the submodule {path} ({module.kind})")
        arguments = dict(zip(_MODULE_ARGUMENTS.get(name, ()), module.call.args, strict=False))
        arguments |= {k.arg: k.value for k in module.call.keywords if k.arg}
        options: list[tuple[str, Value]] = []
        for key, value in arguments.items():
            if key in ("inplace", "normalized_shape"):
                continue
            known = value.value if isinstance(value, ast.Constant) else number(value)
            if not isinstance(known, (int, float, str, bool, type(None))) or (
                known is None and not isinstance(value, ast.Constant)
            ):
                raise self.refuse(node, f"{path}'s argument {key}, which is not a literal,")
            options.append((key, Value("constant", constant=known)))
        return self.operator(
            name,
            args,
            (*options, ("module", Value("attribute", name=path)))
            if name.endswith("norm")
            else tuple(options),
        )

    def refuse(self, node: ast.AST, what: str) -> NotReadable:
        return NotReadable(
            f"forward, line {getattr(node, 'lineno', '?')}: {what} is not understood"
        )
