"""Expression graph -> the loop body of a fused elementwise kernel in C++ (single precision)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.types import Task, TensorSpec

from .expression import Value, translate
from .program import NotReadable, Program

_UNARY = {
    "relu": "({0} > 0.0f || {0} != {0} ? {0} : 0.0f)", "relu6": "k_min(k_max({0}, 0.0f), 6.0f)", "sigmoid": "k_sigmoid({0})",
    "tanh": "k_tanh({0})", "exp": "k_exp({0})", "log": "k_log({0})", "log1p": "k_log1p({0})", "sqrt": "std::sqrt({0})",
    "rsqrt": "(1.0f / std::sqrt({0}))", "abs": "std::fabs({0})", "neg": "(-{0})", "square": "({0} * {0})", "erf": "k_erf({0})",
    "reciprocal": "(1.0f / {0})", "silu": "({0} * k_sigmoid({0}))", "mish": "({0} * k_tanh(k_softplus({0})))",
    "floor": "std::floor({0})", "hardsigmoid": "(k_min(k_max({0} + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f))",
    "ceil": "std::ceil({0})", "trunc": "std::trunc({0})",
    "hardswish": "({0} * k_min(k_max({0} + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f))",
    "softsign": "({0} / (1.0f + std::fabs({0})))",
}  # fmt: skip
_BINARY = {
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "div": "({0} / {1})",
    "maximum": "k_max({0}, {1})", "minimum": "k_min({0}, {1})",
}  # fmt: skip
_TESTS = {
    "gt": "({0} > {1})", "ge": "({0} >= {1})", "lt": "({0} < {1})", "le": "({0} <= {1})",
    "eq": "({0} == {1})", "ne": "({0} != {1})",
    "logical_and": "({0} && {1})", "logical_or": "({0} || {1})",
}  # fmt: skip


@dataclass(frozen=True)
class Operand:
    """One pointer argument. expression: how forward names it ("x", "self.bias"). mode: "full", "vector" (one value a column),
    "column" (one value a row), "cycle" (one value a row, beginning again after its last) or "single"."""

    expression: str
    mode: str


@dataclass(frozen=True)
class Pointwise:
    """body: statements that read p0, p1 … at j and write o0, o1 …; scalars: expressions of run-time numbers (s0, s1 …)."""

    operands: tuple[Operand, ...]
    scalars: tuple[str, ...]
    body: tuple[str, ...]
    outputs: int
    trailing: int  # how many trailing dimensions make a row

    def placeholders(self) -> dict[str, str]:
        """The texts for a template's marks @SIGNATURE@, @POINTERS@, @BODY@, @BUFFERS@, @FLUSH@, @RUN@ and the like."""
        outs = range(self.outputs)
        inputs = [f"const float* __restrict a{i}" for i in range(len(self.operands))]
        signature = [*inputs, *(f"float* __restrict y{k}" for k in outs), *(f"float s{i}" for i in range(len(self.scalars)))]
        signature += [f"int64_t m{i}" for i in self._cycles()]
        where = {"full": "a{0} + at", "vector": "a{0} + c", "column": "a{0} + r", "cycle": "a{0} + r % m{0}", "single": "a{0}"}
        pointers = [f"const float* p{i} = {where[o.mode].format(i)};" for i, o in enumerate(self.operands)]
        pointers += [f"float* __restrict o{k} = stream ? b{k} : y{k} + at;" for k in outs]
        return {
            "@SIGNATURE@": ", ".join(signature),
            "@POINTERS@": "\n            ".join(pointers),
            "@BODY@": "\n                ".join(self.body),
            "@BUFFERS@": "\n    ".join(f"alignas(64) float b{k}[BLOCK];" for k in outs),
            "@ALIGNED@": " | ".join(f"(uintptr_t)y{k}" for k in outs),
            "@OUTPUTS@": str(self.outputs),
            "@PREFETCH@": " ".join(
                f"__builtin_prefetch((const char*)(p{i} + j) + PREFETCH_BYTES);"
                for i, o in enumerate(self.operands)
                if o.mode == "full"
            ),
            "@FLUSH@": " ".join(f"flush(b{k}, y{k} + at, n);" for k in outs),
            "# @RUN@": self._run(),
        }

    def _run(self) -> str:
        names = [f"a{i}" for i in range(len(self.operands))]
        scalars = [f"s{i}" for i in range(len(self.scalars))]
        full = next((n for n, o in zip(names, self.operands, strict=True) if o.mode == "full"), None)
        shape = f"{full}.shape" if full else f"torch.broadcast_shapes({', '.join(f'{n}.shape' for n in names)})"
        outs = [f"y{k}" for k in range(self.outputs)]
        cols = " * ".join(f"shape[-{d}]" for d in range(1, self.trailing + 1)) or "1"
        rows = "1" if not self.trailing else "count // cols if cols else 0"
        lines = [f"def run({', '.join([*names, *scalars])}):", f"    shape = {shape}"]
        lines += [f"    {y} = torch.empty(shape, dtype=torch.float32)" for y in outs]
        lines += ["    count = y0.numel()", f"    cols = {cols if self.trailing else 'count'}"]
        arguments = [f"{n}.contiguous()" for n in names] + outs + [f"float({s})" for s in scalars]
        arguments += [f"a{i}.numel()" for i in self._cycles()]
        lines += [f"    _lib.pointwise({', '.join([*arguments, rows, 'cols'])})", f"    return {', '.join(outs)}"]
        return "\n".join(lines)

    def _cycles(self) -> list[int]:
        return [i for i, o in enumerate(self.operands) if o.mode == "cycle"]

    def call(self) -> str:
        """The call that forward returns."""
        return f"run({', '.join([*(o.expression for o in self.operands), *self.scalars])})"


def fuse(program: Program, task: Task) -> Pointwise:
    """Raises NotReadable saying what keeps the task from being one elementwise kernel."""
    outputs = translate(program)
    cases = [c for c in task.visible_cases if c.inputs]
    if not cases:
        raise NotReadable("no case with known input shapes")
    tensors = _tensors(outputs, program, task)
    placed = {_placement(tensors, [_spec(t, program, task, c.inputs) for t in tensors], c.outputs) for c in cases}
    if len(placed) != 1:
        raise NotReadable("the inputs broadcast differently from case to case")
    modes, trailing = placed.pop()
    emitter = _Emitter(tensors, modes)
    results = [emitter.number(o) for o in outputs]
    body = [*emitter.lines, *(f"o{k}[j] = {r};" for k, r in enumerate(results))]
    operands = tuple(Operand(t.name, m) for t, m in zip(tensors, modes, strict=True))
    return Pointwise(operands, tuple(emitter.scalars), tuple(body), len(outputs), trailing)


def _parameters(task: Task) -> dict[str, TensorSpec]:
    found = {}
    for text in task.parameters:
        name, _, rest = text.partition(" ")
        dtype, _, shape = rest.rstrip("]").partition("[")
        found[f"self.{name}"] = TensorSpec(tuple(int(s) for s in shape.split(",") if s.strip()), dtype, (), 0)
    return found


def _tensors(outputs: Sequence[Value], program: Program, task: Task) -> list[Value]:
    parameters = _parameters(task)
    found: dict[Value, None] = {}
    for output in outputs:
        for value in output.walk():
            if value.op == "input" or (value.op == "attribute" and value.name in parameters):
                found[value] = None
    if not any(v.op == "input" for v in found):
        raise NotReadable("the result does not depend on an input")
    return list(found)


def _spec(tensor: Value, program: Program, task: Task, inputs: Sequence[TensorSpec]) -> TensorSpec:
    if tensor.op == "attribute":
        spec = _parameters(task)[tensor.name]
    else:
        index = program.arguments.index(tensor.name)
        if index >= len(inputs):
            raise NotReadable(f"the input {tensor.name} is no tensor in every case")
        spec = inputs[index]
    if spec.dtype != "float32":
        raise NotReadable(f"{tensor.name} is {spec.dtype}; the fused kernel computes in float32")
    return spec


def _placement(
    tensors: Sequence[Value], specs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> tuple[tuple[str, ...], int]:
    """The mode of each tensor and the number of trailing dimensions that make a row (0: the whole output is one row)."""
    shape = outputs[0].shape if outputs else max((s.shape for s in specs), key=math.prod)
    for output in outputs:
        if output.shape != shape:
            raise NotReadable("the outputs differ in shape")
        if output.dtype != "float32":
            raise NotReadable(f"an output is {output.dtype}; the fused kernel writes float32")
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
    """The mode of one tensor and how many trailing dimensions it wants in a row (0: any)."""
    if own == shape:
        return "full", 0
    if math.prod(own) == 1:
        return "single", 0
    first = next(i for i, size in enumerate(own) if size != 1)
    last = max(i for i, size in enumerate(own) if size != 1)
    core, trailing = own[first : last + 1], len(own) - 1 - last
    end = len(shape) - trailing
    if core != shape[end - len(core) : end]:
        raise NotReadable(f"{name} of shape {list(own)} broadcasts along a middle dimension of {list(shape)}")
    if trailing == 0:
        return "vector", len(core)
    return ("column" if len(core) == end or math.prod(shape[: end - len(core)]) == 1 else "cycle"), trailing


class _Emitter:
    """Each distinct value becomes one `const float tN`; common subexpressions are computed once."""

    def __init__(self, tensors: Sequence[Value], modes: Sequence[str]) -> None:
        self.lines: list[str] = []
        self.scalars: list[str] = []
        self.done: dict[Value, str] = {}
        for i, (tensor, mode) in enumerate(zip(tensors, modes, strict=True)):
            self.done[tensor] = self.keep("float", f"p{i}[j]" if mode in ("full", "vector") else f"p{i}[0]")
        self.special: dict[str, Callable[[Value], str]] = {
            "gelu": self.gelu, "clamp": self.clamp, "where": self.where, "pow": self.pow, "leaky_relu": self.leaky_relu,
            "elu": self.elu, "hardtanh": self.hardtanh, "softplus": self.softplus, "lerp": self.lerp,
        }  # fmt: skip

    def keep(self, kind: str, expression: str) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"const {kind} {name} = {expression};")
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
            return self.keep("float", self.special[value.op](value))
        if value.op in _TESTS or value.op == "logical_not":
            return f"({self.test(value)} ? 1.0f : 0.0f)"
        text = {1: _UNARY, 2: _BINARY}.get(len(value.args), {}).get(value.op)
        if text is None:
            raise NotReadable(f"the operator {value.op!r} with {len(value.args)} operand(s) is not elementwise or not known here")
        operands = [self.number(a) for a in value.args]
        for name, option in value.options:
            if name == "alpha" and value.op in ("add", "sub"):
                operands[1] = f"({self.number(option)} * {operands[1]})"
            elif not (name == "rounding_mode" and option.constant is None):
                raise NotReadable(f"{value.op}'s argument {name} is not known here")
        return self.keep("float", text.format(*operands))

    def literal(self, value: Value) -> str:
        number = value.constant
        if not isinstance(number, (int, float)):
            raise NotReadable(f"{number!r} stands where a number is needed")
        if math.isnan(number):
            return "NAN"
        if math.isinf(number):
            return "INFINITY" if number > 0 else "(-INFINITY)"
        text = f"{float(number):.9g}"
        text = text if any(c in text for c in ".e") else f"{text}.0"
        return f"({text}f)" if number < 0 else f"{text}f"

    def test(self, value: Value) -> str:
        if value.op == "logical_not":
            return f"(!{self.test(value.args[0])})"
        if value.op in ("logical_and", "logical_or"):
            return _TESTS[value.op].format(*(self.test(a) for a in value.args))
        if value.op not in _TESTS:
            raise NotReadable(f"a condition made by {value.op!r}; comparisons joined by & and | are understood")
        return _TESTS[value.op].format(*(self.number(a) for a in value.args))

    def argument(self, value: Value, index: int, name: str, default: float | None = None) -> Value | None:
        found = value.args[index] if index < len(value.args) else next((v for k, v in value.options if k == name), None)
        if found is None and default is not None:
            return Value("constant", constant=default)
        return None if found is None or (found.op == "constant" and found.constant is None) else found

    def given(self, value: Value, index: int, name: str, default: float | None = None) -> str:
        found = self.argument(value, index, name, default)
        if found is None:
            raise NotReadable(f"{value.op} lacks its argument {name}")
        return self.number(found)

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
        return f"({self.test(value.args[0])} ? {self.number(value.args[1])} : {self.number(value.args[2])})"

    def pow(self, value: Value) -> str:
        base, exponent = self.number(value.args[0]), value.args[1].constant
        known = {2: "({0} * {0})", 3: "({0} * {0} * {0})", 4: "(({0} * {0}) * ({0} * {0}))", 1: "({0})", -1: "(1.0f / {0})",
                 0.5: "std::sqrt({0})", -0.5: "(1.0f / std::sqrt({0}))", -2: "(1.0f / ({0} * {0}))"}  # fmt: skip
        if not isinstance(exponent, (int, float)) or exponent not in known:
            raise NotReadable(f"pow with the exponent {exponent!r}; known: {', '.join(map(str, known))}")
        return known[exponent].format(base)

    def leaky_relu(self, value: Value) -> str:
        x = self.number(value.args[0])
        return f"({x} > 0.0f ? {x} : {x} * {self.given(value, 1, 'negative_slope', 0.01)})"

    def elu(self, value: Value) -> str:
        x = self.number(value.args[0])
        return f"({x} > 0.0f ? {x} : {self.given(value, 1, 'alpha', 1.0)} * k_expm1({x}))"

    def hardtanh(self, value: Value) -> str:
        low, high = self.given(value, 1, "min_val", -1.0), self.given(value, 2, "max_val", 1.0)
        return f"k_min(k_max({self.number(value.args[0])}, {low}), {high})"

    def softplus(self, value: Value) -> str:
        beta, limit = self.argument(value, 1, "beta", 1.0), self.argument(value, 2, "threshold", 20.0)
        if beta is None or beta.constant != 1 or limit is None or limit.constant != 20:
            raise NotReadable("softplus with a beta other than 1 or a threshold other than 20")
        return f"k_softplus({self.number(value.args[0])})"

    def lerp(self, value: Value) -> str:
        a, b, weight = (self.number(v) for v in value.args)
        return f"({a} + {weight} * ({b} - {a}))"
