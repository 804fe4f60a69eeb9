"""A task's expression graph turned into one fused elementwise kernel in single precision; a dialect
writes its text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from harness.types import Task, TensorSpec

from .dialects import BINARY, Dialect, Operand, Pointwise
from .expression import Value, translate
from .program import NotReadable, Program


def fuse(program: Program, task: Task, dialect: Dialect, dtypes: Sequence[str]) -> Pointwise:
    """Fuse a program into one kernel. dtypes: those that the kernel may read and write. Raises
    NotReadable saying why the task cannot be one kernel."""
    outputs = translate(program)
    cases = [c for c in task.visible_cases if c.inputs]
    if not cases:
        raise NotReadable("no case with known input shapes")
    tensors = _tensors(outputs, program, task)
    specs = [[_spec(t, program, task, c.inputs) for t in tensors] for c in cases]
    for spec, name in [(s, t.name) for row in specs for s, t in zip(row, tensors, strict=True)] + [
        (o, "an output") for c in cases for o in c.outputs
    ]:
        if spec.dtype not in dtypes:
            raise NotReadable(
                f"{name} is {spec.dtype}; the fused kernel supports {', '.join(dtypes)}"
            )
    placed = {_placement(tensors, row, c.outputs) for row, c in zip(specs, cases, strict=True)}
    if len(placed) != 1:
        raise NotReadable("the inputs broadcast differently from case to case")
    modes, trailing = placed.pop()
    emitter = _Emitter(tensors, modes, dialect)
    results = tuple(emitter.number(o) for o in outputs)
    operands = tuple(Operand(t.name, m) for t, m in zip(tensors, modes, strict=True))
    written = _written(len(outputs), modes, [c.outputs for c in cases], specs)
    return Pointwise(
        operands, tuple(emitter.scalars), tuple(emitter.lines), results, trailing, written
    )


def _written(
    count: int,
    modes: Sequence[str],
    outputs: Sequence[Sequence[TensorSpec]],
    specs: Sequence[Sequence[TensorSpec]],
) -> tuple[str | int, ...]:
    """The dtype of each output: the number of an operand with the same dtype in every case,
    preferably a full one; else the dtype's name."""
    sizes: list[str | int] = []
    for k in range(count):
        names = [
            o[k].dtype if k < len(o) else row[0].dtype
            for o, row in zip(outputs, specs, strict=True)
        ]
        order = sorted(range(len(modes)), key=lambda i: modes[i] != "full")
        alike = next((i for i in order if [row[i].dtype for row in specs] == names), None)
        if alike is None and len(set(names)) > 1:
            raise NotReadable(
                f"output {k} is {' or '.join(sorted(set(names)))}, depending on the case, and no "
                "input has the same dtypes"
            )
        sizes.append(names[0] if alike is None else alike)
    return tuple(sizes)


def _parameters(task: Task) -> dict[str, TensorSpec]:
    specs = {}
    for text in task.parameters:
        name, _, rest = text.partition(" ")
        dtype, _, shape = rest.rstrip("]").partition("[")
        specs[f"self.{name}"] = TensorSpec(
            tuple(int(s) for s in shape.split(",") if s.strip()), dtype, (), 0
        )
    return specs


def _tensors(outputs: Sequence[Value], program: Program, task: Task) -> list[Value]:
    parameters = _parameters(task)
    tensors: dict[Value, None] = {}
    for output in outputs:
        for value in output.walk():
            if value.op == "input" or (value.op == "attribute" and value.name in parameters):
                tensors[value] = None
    if not any(v.op == "input" for v in tensors):
        raise NotReadable("the result does not depend on an input")
    return list(tensors)


def _spec(tensor: Value, program: Program, task: Task, inputs: Sequence[TensorSpec]) -> TensorSpec:
    if tensor.op == "attribute":
        spec = _parameters(task)[tensor.name]
    else:
        index = program.arguments.index(tensor.name)
        if index >= len(inputs):
            raise NotReadable(f"the input {tensor.name} is not a tensor in every case")
        spec = inputs[index]
    return spec


def _placement(
    tensors: Sequence[Value], specs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> tuple[tuple[str, ...], int]:
    """The mode of each tensor and the number of trailing dimensions that make a row (0: the whole
    output is one row)."""
    shape = outputs[0].shape if outputs else max((s.shape for s in specs), key=math.prod)
    for output in outputs:
        if output.shape != shape:
            raise NotReadable("the outputs differ in shape")
    modes: list[str] = []
    lengths: set[int] = set()
    for tensor, spec in zip(tensors, specs, strict=True):
        mode, length = _mode(tensor.name, spec.shape, shape)
        modes.append(mode)
        lengths |= {length} if length else set()
    if len(lengths) > 1:
        raise NotReadable("the inputs broadcast along different dimensions")
    return tuple(modes), lengths.pop() if lengths else 0


def _mode(name: str, own: tuple[int, ...], shape: tuple[int, ...]) -> tuple[str, int]:
    """The mode of one tensor and how many trailing dimensions it needs in a row (0: any)."""
    if own == shape:
        return "full", 0
    if math.prod(own) == 1:
        return "single", 0
    first = next(i for i, size in enumerate(own) if size != 1)
    last = max(i for i, size in enumerate(own) if size != 1)
    core, trailing = own[first : last + 1], len(own) - 1 - last
    end = len(shape) - trailing
    if core != shape[end - len(core) : end]:
        raise NotReadable(
            f"{name} of shape {list(own)} broadcasts along a middle dimension of {list(shape)}"
        )
    if trailing == 0:
        return "vector", len(core)
    return (
        "column" if len(core) == end or math.prod(shape[: end - len(core)]) == 1 else "cycle"
    ), trailing


class _Emitter:
    """Gives each distinct value a name tN; common subexpressions are computed once."""

    def __init__(self, tensors: Sequence[Value], modes: Sequence[str], dialect: Dialect) -> None:
        self.dialect = dialect
        self.lines: list[str] = []
        self.scalars: list[str] = []
        self.done: dict[Value, str] = {}
        for i, (tensor, mode) in enumerate(zip(tensors, modes, strict=True)):
            self.done[tensor] = self.keep(dialect.load(i, mode))
        self.special: dict[str, Callable[[Value], str]] = {
            "gelu": self.gelu, "clamp": self.clamp, "where": self.where, "pow": self.pow,
            "leaky_relu": self.leaky_relu, "elu": self.elu, "hardtanh": self.hardtanh,
            "softplus": self.softplus, "lerp": self.lerp, "float": self.cast, "to": self.cast,
            "type_as": self.cast,
        }  # fmt: skip

    def keep(self, expression: str) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(self.dialect.assign.format(name, expression))
        return name

    def number(self, value: Value) -> str:
        if value not in self.done:
            self.done[value] = self.build(value)
        return self.done[value]

    def build(self, value: Value) -> str:
        if value.op == "constant" or (value.op == "attribute" and value.constant is not None):
            return self.literal(value)
        if value.op == "attribute":
            self.scalars.append(value.name)
            return f"s{len(self.scalars) - 1}"
        if value.op in self.special:
            return self.keep(self.special[value.op](value))
        if value.op in self.dialect.tests or value.op == "logical_not":
            return self.dialect.select.format(
                self.test(value), self.dialect.number(1.0), self.dialect.number(0.0)
            )
        text = {1: self.dialect.unary, 2: BINARY}.get(len(value.args), {}).get(value.op)
        if text is None:
            raise NotReadable(
                f"the operator {value.op!r} with {len(value.args)} operand(s) is not elementwise "
                "or not supported"
            )
        operands = [self.number(a) for a in value.args]
        for name, option in value.options:
            if name == "alpha" and value.op in ("add", "sub"):
                operands[1] = f"({self.number(option)} * {operands[1]})"
            elif not (name == "rounding_mode" and option.constant is None):
                raise NotReadable(f"{value.op}'s argument {name} is not supported")
        return self.keep(text.format(*operands))

    def literal(self, value: Value) -> str:
        number = value.constant
        if not isinstance(number, (int, float)):
            raise NotReadable(f"{number!r} is not a number where one is needed")
        if math.isnan(number):
            return self.dialect.nan
        if math.isinf(number):
            return self.dialect.infinity if number > 0 else f"(-{self.dialect.infinity})"
        return self.dialect.number(float(number))

    def test(self, value: Value) -> str:
        if value.op == "logical_not":
            return self.dialect.negated.format(self.test(value.args[0]))
        if value.op in ("logical_and", "logical_or"):
            return self.dialect.tests[value.op].format(*(self.test(a) for a in value.args))
        if value.op not in self.dialect.tests:
            raise NotReadable(
                f"a condition made by {value.op!r}; comparisons joined by & and | are understood"
            )
        return self.dialect.tests[value.op].format(*(self.number(a) for a in value.args))

    def argument(
        self, value: Value, index: int, name: str, default: float | None = None
    ) -> Value | None:
        operand = (
            value.args[index]
            if index < len(value.args)
            else next((v for k, v in value.options if k == name), None)
        )
        if operand is None and default is not None:
            return Value("constant", constant=default)
        return (
            None
            if operand is None or (operand.op == "constant" and operand.constant is None)
            else operand
        )

    def given(self, value: Value, index: int, name: str, default: float | None = None) -> str:
        argument = self.argument(value, index, name, default)
        if argument is None:
            raise NotReadable(f"{value.op} lacks its argument {name}")
        return self.number(argument)

    def cast(self, value: Value) -> str:
        """Nothing to do: everything is computed in single precision and rounded once, on output."""
        for kind in value.args[1:] if value.op == "to" else ():
            if kind.op != "dtype" and kind.constant not in ("torch.float32", "torch.float"):
                raise NotReadable(
                    f"{value.op} something other than float32 or the dtype of a tensor"
                )
        return self.number(value.args[0])

    def gelu(self, value: Value) -> str:
        kind = self.argument(value, 1, "approximate")
        name = "k_gelu_tanh" if kind is not None and kind.constant == "tanh" else "k_gelu"
        return f"{name}({self.number(value.args[0])})"

    def clamp(self, value: Value) -> str:
        text = self.number(value.args[0])
        low, high = self.argument(value, 1, "min"), self.argument(value, 2, "max")
        text = text if low is None else f"k_max({text}, {self.number(low)})"
        return text if high is None else f"k_min({text}, {self.number(high)})"

    def where(self, value: Value) -> str:
        if len(value.args) != 3:
            raise NotReadable("where with one operand")
        return self.dialect.select.format(
            self.test(value.args[0]), self.number(value.args[1]), self.number(value.args[2])
        )

    def pow(self, value: Value) -> str:
        base, exponent = self.number(value.args[0]), value.args[1].constant
        unary = self.dialect.unary
        known = {2: "({0} * {0})", 3: "({0} * {0} * {0})", 4: "(({0} * {0}) * ({0} * {0}))",
                 1: "({0})",
                 -1: unary["reciprocal"], 0.5: unary["sqrt"], -0.5: unary["rsqrt"],
                 -2: unary["reciprocal"].replace("{0}", "({0} * {0})")}  # fmt: skip
        if not isinstance(exponent, (int, float)) or exponent not in known:
            raise NotReadable(
                f"pow with the exponent {exponent!r}; known: {', '.join(map(str, known))}"
            )
        return known[exponent].format(base)

    def leaky_relu(self, value: Value) -> str:
        x = self.number(value.args[0])
        slope = self.given(value, 1, "negative_slope", 0.01)
        return self.dialect.select.format(
            f"({x} > {self.dialect.number(0.0)})", x, f"{x} * {slope}"
        )

    def elu(self, value: Value) -> str:
        x = self.number(value.args[0])
        scale = self.given(value, 1, "alpha", 1.0)
        return self.dialect.select.format(
            f"({x} > {self.dialect.number(0.0)})", x, f"{scale} * k_expm1({x})"
        )

    def hardtanh(self, value: Value) -> str:
        low, high = self.given(value, 1, "min_val", -1.0), self.given(value, 2, "max_val", 1.0)
        return f"k_min(k_max({self.number(value.args[0])}, {low}), {high})"

    def softplus(self, value: Value) -> str:
        beta, limit = (
            self.argument(value, 1, "beta", 1.0),
            self.argument(value, 2, "threshold", 20.0),
        )
        if beta is None or beta.constant != 1 or limit is None or limit.constant != 20:
            raise NotReadable("softplus with a beta other than 1 or a threshold other than 20")
        return f"k_softplus({self.number(value.args[0])})"

    def lerp(self, value: Value) -> str:
        a, b, weight = (self.number(v) for v in value.args)
        return f"({a} + {weight} * ({b} - {a}))"
