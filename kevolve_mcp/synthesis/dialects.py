"""How each language writes a fused elementwise kernel: its operators, and the texts around the
body.

Both dialects use the same names of helper functions (k_max, k_gelu …), which the skill's templates
define.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

_SHARED = {
    "sigmoid": "k_sigmoid({0})", "tanh": "k_tanh({0})", "exp": "k_exp({0})", "log": "k_log({0})",
    "log1p": "k_log1p({0})", "erf": "k_erf({0})", "relu6": "k_min(k_max({0}, 0.0), 6.0)",
    "neg": "(-{0})", "square": "({0} * {0})", "reciprocal": "(1.0 / {0})",
    "silu": "({0} * k_sigmoid({0}))", "mish": "({0} * k_tanh(k_softplus({0})))",
    "hardsigmoid": "(k_min(k_max({0} + 3.0, 0.0), 6.0) * (1.0 / 6.0))",
    "hardswish": "({0} * k_min(k_max({0} + 3.0, 0.0), 6.0) * (1.0 / 6.0))",
}  # fmt: skip
BINARY = {
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "div": "({0} / {1})",
    "maximum": "k_max({0}, {1})", "minimum": "k_min({0}, {1})",
}  # fmt: skip
_COMPARED = {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "eq": "==", "ne": "!="}


@dataclass(frozen=True)
class Operand:
    """One pointer argument. expression: its name in forward ("x", "self.bias"). mode: "full",
    "vector" (one value per column), "column" (one value per row), "cycle" (one value per row,
    repeating after the last) or "single"."""

    expression: str
    mode: str


@dataclass(frozen=True)
class Pointwise:
    """A fused kernel. body: statements that compute t0, t1 …; results: the expression of each
    output; scalars: expressions of run-time numbers (s0, s1 …); dtypes: for each output the number
    of an operand with the same dtype in every case, else the dtype's name."""

    operands: tuple[Operand, ...]
    scalars: tuple[str, ...]
    body: tuple[str, ...]
    results: tuple[str, ...]
    trailing: int  # how many trailing dimensions make a row
    dtypes: tuple[str | int, ...]

    @property
    def cycles(self) -> list[int]:
        """Return the operands whose length is an argument."""
        return [i for i, o in enumerate(self.operands) if o.mode == "cycle"]

    def call(self) -> str:
        """Return the call that forward returns."""
        return f"run({', '.join([*(o.expression for o in self.operands), *self.scalars])})"

    def run(self, launch: Sequence[str]) -> str:
        """Return the function `run`, which allocates the outputs y0, y1 … and launches; `launch`
        may use count and cols."""
        names = [f"a{i}" for i in range(len(self.operands))]
        full = next((i for i, o in enumerate(self.operands) if o.mode == "full"), None)
        lines = [f"def run({', '.join([*names, *(f's{i}' for i in range(len(self.scalars)))])}):"]
        lines += [f"    {name} = {name}.contiguous()" for name in names]
        shape = f"torch.broadcast_shapes({', '.join(f'{n}.shape' for n in names)})"
        for k, dtype in enumerate(self.dtypes):
            kind = f"a{dtype}.dtype" if isinstance(dtype, int) else f"torch.{dtype}"
            if full is None:
                lines.append(f"    y{k} = torch.empty({shape}, dtype={kind}, device=a0.device)")
            else:  # the cheapest call, which matters for small tensors
                lines.append(
                    f"    y{k} = "
                    f"torch.empty_like(a{full}{'' if dtype == full else f', dtype={kind}'})"
                )
        cols = " * ".join(f"y0.shape[-{d}]" for d in range(1, self.trailing + 1)) or "count"
        lines += [
            "    count = y0.numel()",
            f"    cols = {cols}",
            *(f"    {line}" for line in launch),
        ]
        return "\n".join(
            [*lines, f"    return {', '.join(f'y{k}' for k in range(len(self.results)))}"]
        )

    def arguments(self) -> list[str]:
        """Return the arguments of every launch: operands, outputs, scalars, lengths."""
        names = [f"a{i}" for i in range(len(self.operands))] + [
            f"y{k}" for k in range(len(self.results))
        ]
        return [
            *names,
            *(f"float(s{i})" for i in range(len(self.scalars))),
            *(f"a{i}.numel()" for i in self.cycles),
        ]


class Dialect(ABC):
    """One language. `unary` and `tests` hold format strings over operands' texts."""

    unary: ClassVar[Mapping[str, str]]
    tests: ClassVar[Mapping[str, str]]
    negated: str  # a condition
    select: str  # condition, then, else
    assign: str  # name, value
    infinity: str
    nan: str

    @abstractmethod
    def number(self, value: float) -> str:
        """Return a finite literal in single precision."""

    @abstractmethod
    def load(self, index: int, mode: str) -> str:
        """Return the value of an operand for one element."""

    @abstractmethod
    def fill(self, template: str, kernel: Pointwise) -> str:
        """Return the template with its marks replaced."""


class _Cpp(Dialect):
    unary: ClassVar[Mapping[str, str]] = {
        **{name: text.replace(".0", ".0f") for name, text in _SHARED.items()},
        "relu": "({0} > 0.0f || {0} != {0} ? {0} : 0.0f)", "sqrt": "std::sqrt({0})",
        "rsqrt": "(1.0f / std::sqrt({0}))", "abs": "std::fabs({0})", "floor": "std::floor({0})",
        "ceil": "std::ceil({0})", "trunc": "std::trunc({0})",
        "softsign": "({0} / (1.0f + std::fabs({0})))",
    }  # fmt: skip
    tests: ClassVar[Mapping[str, str]] = {
        **{name: f"({{0}} {sign} {{1}})" for name, sign in _COMPARED.items()},
        "logical_and": "({0} && {1})",
        "logical_or": "({0} || {1})",
    }
    negated, select, assign = "(!{0})", "({0} ? {1} : {2})", "const float {0} = {1};"
    infinity, nan = "INFINITY", "NAN"

    def number(self, value: float) -> str:
        text = f"{value:.9g}"
        text = text if any(c in text for c in ".e") else f"{text}.0"
        return f"({text}f)" if value < 0 else f"{text}f"

    def load(self, index: int, mode: str) -> str:
        return f"p{index}[j]" if mode in ("full", "vector") else f"p{index}[0]"

    def fill(self, template: str, kernel: Pointwise) -> str:
        outs = range(len(kernel.results))
        signature = [f"const float* __restrict a{i}" for i in range(len(kernel.operands))]
        signature += [
            *(f"float* __restrict y{k}" for k in outs),
            *(f"float s{i}" for i in range(len(kernel.scalars))),
        ]
        signature += [f"int64_t m{i}" for i in kernel.cycles]
        where = {
            "full": "a{0} + at",
            "vector": "a{0} + c",
            "column": "a{0} + r",
            "cycle": "a{0} + r % m{0}",
            "single": "a{0}",
        }
        pointers = [
            f"const float* p{i} = {where[o.mode].format(i)};" for i, o in enumerate(kernel.operands)
        ]
        pointers += [f"float* __restrict o{k} = stream ? b{k} : y{k} + at;" for k in outs]
        rows = "count // cols if cols else 0" if kernel.trailing else "1"
        marks = {
            "@SIGNATURE@": ", ".join(signature),
            "@POINTERS@": "\n            ".join(pointers),
            "@BODY@": "\n                ".join(
                [*kernel.body, *(f"o{k}[j] = {r};" for k, r in enumerate(kernel.results))]
            ),
            "@BUFFERS@": "\n    ".join(f"alignas(64) float b{k}[BLOCK];" for k in outs),
            "@ALIGNED@": " | ".join(f"(uintptr_t)y{k}" for k in outs),
            "@OUTPUTS@": str(len(kernel.results)),
            "@PREFETCH@": " ".join(
                f"__builtin_prefetch((const char*)(p{i} + j) + PREFETCH_BYTES);"
                for i, o in enumerate(kernel.operands)
                if o.mode == "full"
            ),
            "@FLUSH@": " ".join(f"flush(b{k}, y{k} + at, n);" for k in outs),
            "# @RUN@": kernel.run(
                [f"_lib.pointwise({', '.join([*kernel.arguments(), rows, 'cols'])})"]
            ),
        }
        for mark, text in marks.items():
            template = template.replace(mark, text)
        return template


class _Triton(Dialect):
    unary: ClassVar[Mapping[str, str]] = {
        **_SHARED,
        "relu": "k_max({0}, 0.0)", "sqrt": "tl.sqrt({0})", "rsqrt": "(1.0 / tl.sqrt({0}))",
        "abs": "tl.abs({0})", "floor": "tl.floor({0})", "ceil": "tl.ceil({0})",
        "trunc": "tl.where({0} < 0.0, tl.ceil({0}), tl.floor({0}))",
        "softsign": "({0} / (1.0 + tl.abs({0})))",
    }  # fmt: skip
    tests: ClassVar[Mapping[str, str]] = {
        **{name: f"({{0}} {sign} {{1}})" for name, sign in _COMPARED.items()},
        "logical_and": "({0} & {1})",
        "logical_or": "({0} | {1})",
    }
    negated, select, assign = "(~{0})", "tl.where({0}, {1}, {2})", "{0} = {1}"
    infinity, nan = 'float("inf")', 'float("nan")'

    def number(self, value: float) -> str:
        return f"({value!r})" if value < 0 else repr(value)

    def load(self, index: int, mode: str) -> str:
        place = {
            "full": "at",
            "vector": "at % COLS",
            "column": "at // COLS",
            "cycle": f"at // COLS % m{index}",
        }
        if mode == "single":
            return f"tl.load(a{index}).to(tl.float32)"
        rest = ", eviction_policy=EVICTION" if mode == "full" else ""
        return f"tl.load(a{index} + {place[mode]}, mask=inside, other=0.0{rest}).to(tl.float32)"

    def fill(self, template: str, kernel: Pointwise) -> str:
        names = [f"a{i}" for i in range(len(kernel.operands))] + [
            f"y{k}" for k in range(len(kernel.results))
        ]
        names += [*(f"s{i}" for i in range(len(kernel.scalars))), *(f"m{i}" for i in kernel.cycles)]
        constants = (
            "count, COLS: tl.constexpr, BLOCK: tl.constexpr, LOOP: tl.constexpr, EVICTION: "
            "tl.constexpr, WIDE: tl.constexpr"
        )
        stores = [f"tl.store(y{k} + at, {r}, mask=inside)" for k, r in enumerate(kernel.results)]
        lines = [
            "@triton.jit",
            f"def pointwise({', '.join([*names, constants])}):",
            "    first = tl.program_id(0)",
            "    if WIDE:",
        ]
        lines += ["        first = first.to(tl.int64)", "    for i in tl.static_range(LOOP):"]
        lines += [
            "        at = (first * LOOP + i) * BLOCK + tl.arange(0, BLOCK)",
            "        inside = at < count",
        ]
        lines += [f"        {line}" for line in (*kernel.body, *stores)]
        launch = [
            "loop, block = PARAMS['LOOP'], PARAMS['BLOCK']",
            "if count:",
            (
                "    pointwise[(triton.cdiv(count, loop * block),)](\n"
                f"            {', '.join(kernel.arguments())}, count,"
            ),
            (
                f"        COLS={'cols' if kernel.trailing else 1}, BLOCK=block, LOOP=loop, "
                "EVICTION=PARAMS['EVICTION'], WIDE=count >= 2**31 - loop * block,"
            ),
            "        num_warps=PARAMS['WARPS'],",
            "    )",
        ]
        return template.replace("# @KERNEL@", "\n".join(lines)).replace(
            "# @RUN@", kernel.run(launch)
        )


DIALECTS: Mapping[str, Dialect] = {"cpp": _Cpp(), "triton": _Triton()}
