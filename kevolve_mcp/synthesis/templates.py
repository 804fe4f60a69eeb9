"""A candidate file to fill in, of the right form and with the task's own constructor and names; and
the rules of that form in words, for prompts."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from harness.types import Candidate, Task
from kevolve_mcp.errors import UsageError

from .program import NotReadable, Program

LANGUAGES = ("cpp", "triton", "cuda")


def template_candidate(task: Task, language: str = "cpp") -> Candidate:
    """Return a file in the candidate format for this task. It builds and runs, but computes nothing
    yet: comments mark the places to fill in, and it fails verification until then. Raises
    UsageError for a language without a template."""
    if language not in LANGUAGES:
        raise UsageError(
            f"there is no template for the language {language!r}",
            f"Templates exist for: {', '.join(LANGUAGES)}.",
        )
    return Candidate(_assemble(task, language), language)


_IMPORTS = {
    "cpp": ["from harness.native import load_cpp"],
    "triton": ["import triton", "import triton.language as tl"],
    "cuda": ["from harness.native import load_cuda"],
}


def _assemble(task: Task, language: str) -> str:
    case = next((c for c in task.visible_cases if c.inputs), None)
    try:
        program = Program.parse(task.source)
        names = program.arguments
    except NotReadable:
        program = None
        names = tuple(f"input{i}" for i in range(len(case.inputs) if case else 1))
    parameters = [p.partition(" ")[0] for p in task.parameters]
    inputs = [f"self.{p}" for p in parameters]
    call = f"run({', '.join([*names, *inputs])})"
    imports = list(program.imports) if program else []
    for line in ("import torch", "import torch.nn as nn"):
        if line not in imports:
            imports.append(line)
    imports += _IMPORTS[language]
    head = [
        f'"""Candidate for the task {_safe(task.name)}.',
        "",
        *(f"* {rule}" for rule in format_rules(language)),
        '"""',
        "",
    ]
    body = {"cpp": _cpp, "triton": _triton, "cuda": _cuda}[language](
        task, [*names, *(p.replace(".", "_") for p in parameters)]
    )
    return "\n".join([*head, *imports, "", body, "", "", _model(program, names, call)])


def _safe(name: str) -> str:
    return name.replace("\\", "/").replace('"', "'")


def _model(program: Program | None, names: tuple[str, ...], call: str) -> str:
    if program is not None:
        try:
            return program.wrapped(call)
        except NotReadable as error:
            note = (
                f"        # {error}; write the constructor so that parameters have the "
                "reference's names\n"
            )
            init = program.init
            listed = ast.unparse(init.args) if init is not None else "self"
            return (
                f"class ModelNew(nn.Module):\n    def __init__({listed}):\n"
                f"        super().__init__()\n{note}\n"
                f"    def forward(self, {', '.join(names)}):\n        return {call}\n"
            )
    return (
        f"class ModelNew(nn.Module):\n    def forward(self, {', '.join(names)}):\n"
        f"        return {call}\n"
    )


_POINTERS = {
    "float32": "float", "float64": "double", "int64": "int64_t", "int32": "int32_t", "bool": "bool",
    "uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "float16": "uint16_t",
    "bfloat16": "uint16_t",
}  # fmt: skip


def _shapes(task: Task) -> list[str]:
    return [
        (
            f"//   {c.name}: {', '.join(map(str, c.inputs)) or 'not known'} -> "
            f"{', '.join(map(str, c.outputs)) or 'not known'}"
        )
        for c in task.visible_cases
    ]


def _interface(
    task: Task, names: list[str], types: dict[str, str], device: str
) -> tuple[list[str], list[str], list[str]]:
    """(the kernel's pointer arguments, lines that allocate the outputs, the outputs' names).
    device: text of an argument."""
    case = next((c for c in task.visible_cases if c.inputs), None)
    specs = list(case.inputs) if case else []
    dtypes = [s.dtype for s in specs] + [
        p.partition(" ")[2].partition("[")[0] for p in task.parameters
    ]
    kinds = [types.get(d, "float") for d in dtypes] + ["float"] * (len(names) - len(dtypes))
    outputs = list(case.outputs) if case and case.outputs else []
    pointers = [f"const {k}* {n}" for k, n in zip(kinds, names, strict=False)]
    pointers += [f"{types.get(o.dtype, 'float')}* out{i}" for i, o in enumerate(outputs)] or [
        "float* out0"
    ]
    made = [
        f"    out{i} = torch.empty({shape}, dtype=torch.{o.dtype}{device}){note}"
        for i, o in enumerate(outputs)
        for shape, note in [_shape_text(task, i, names)]
    ] or [f"    out0 = torch.empty_like({names[0]})"]
    return pointers, made, [f"out{i}" for i in range(max(1, len(outputs)))]


def _cpp(task: Task, names: list[str]) -> str:
    pointers, made, outs = _interface(task, names, _POINTERS, "")
    passed = [*(f"{n}.contiguous()" for n in names), *outs, "out0.numel()"]
    lines = [
        (
            "# The choices for parameter search, and the current ones; each reaches the C++ text "
            "as a macro or a flag."
        ),
        'TUNABLES = {"UNROLL": [1, 2, 4, 8], "WIDTH": [256, 512]}',
        'PARAMS = {"UNROLL": 4, "WIDTH": 512}',
        "",
        'SOURCE = r"""',
        "// Shapes (row-major, contiguous):",
        *_shapes(task),
        "#include <cmath>",
        "#include <cstdint>",
        "",
        f'extern "C" void kernel({", ".join(pointers)}, int64_t count) {{',
        (
            "    // Fill in: the loops. `count` is the number of elements of the first output; "
            "pass more sizes as int64_t arguments."
        ),
        (
            "    // One pass over memory, several accumulators, `#pragma omp simd` on the "
            "innermost loop."
        ),
        "}",
        '"""',
        "_lib = load_cpp(",
        "    SOURCE,",
        "    flags=(f\"-mprefer-vector-width={PARAMS['WIDTH']}\",),",
        '    defines={"UNROLL": PARAMS["UNROLL"]},',
        ")",
        "",
        "",
        f"def run({', '.join(names)}):",
        *made,
        f"    _lib.kernel({', '.join(passed)})",
        f"    return {', '.join(outs)}",
    ]
    return "\n".join(lines)


def _cuda(task: Task, names: list[str]) -> str:
    types = {**_POINTERS, "float16": "__half", "bfloat16": "__nv_bfloat16"}
    pointers, made, outs = _interface(task, names, types, f", device={names[0]}.device")
    arguments = ", ".join([*(f"{n}.contiguous()" for n in names), *outs, "out0.numel()"])
    lines = [
        (
            "# The choices for parameter search, and the current ones; each reaches the CUDA text "
            "as a macro."
        ),
        'TUNABLES = {"THREADS": [64, 128, 256, 512, 1024]}',
        'PARAMS = {"THREADS": 256}',
        "",
        'SOURCE = r"""',
        "// Shapes (row-major, contiguous):",
        *_shapes(task),
        "#include <cuda_bf16.h>",
        "#include <cuda_fp16.h>",
        "#include <cstdint>",
        "",
        (
            f'extern "C" __global__ void __launch_bounds__(THREADS) kernel({", ".join(pointers)}, '
            "int64_t count) {"
        ),
        "    const int64_t at = blockIdx.x * int64_t(THREADS) + threadIdx.x;",
        "    if (at >= count) return;",
        (
            "    // Fill in: the computation. `count` is the number of elements of the first "
            "output; pass more sizes as int64_t arguments."
        ),
        "}",
        '"""',
        "_lib = load_cuda(SOURCE, defines=PARAMS)",
        "",
        "",
        f"def run({', '.join(names)}):",
        *made,
        '    blocks = -(-out0.numel() // PARAMS["THREADS"])',
        f'    _lib.kernel[blocks, PARAMS["THREADS"]]({arguments})',
        f"    return {', '.join(outs)}",
    ]
    return "\n".join(lines)


def _shape_text(task: Task, output: int, names: Sequence[str]) -> tuple[str, str]:
    """The expression of an output's shape by the inputs' shapes, as they agree in all cases; a
    comment on what none of them has."""
    cases = [c for c in task.visible_cases if c.inputs and len(c.outputs) > output]
    shapes = [c.outputs[output].shape for c in cases]
    inputs = list(zip(names, zip(*(c.inputs for c in cases), strict=False), strict=False))
    for name, specs in inputs:
        if [s.shape for s in specs] == shapes:
            return f"{name}.shape", ""
    if len(set(map(len, shapes))) > 1:
        return f"{shapes[0]!r}", "  # the number of axes differs between the cases"
    axes, differ = [], []
    for axis, extents in enumerate(zip(*shapes, strict=True)):
        found = [
            f"{name}.shape[{k}]"
            for name, specs in inputs
            for k in range(min(len(s.shape) for s in specs))
            if tuple(s.shape[k] for s in specs) == extents
        ]
        if len(set(extents)) == 1 or not found:
            axes.append(str(extents[0]))
        else:
            axes.append(found[0])
        if len(set(extents)) > 1 and not found:
            others = ", ".join(f"{e} in {c.name}" for e, c in zip(extents, cases, strict=True))
            differ.append(f"axis {axis}: {others}")
    text = f"({', '.join(axes)}{',' if len(axes) == 1 else ''})"
    return text, f"  # {'; '.join(differ)}" if differ else ""


def _triton(task: Task, names: list[str]) -> str:
    shapes = [line.replace("//", "#", 1) for line in _shapes(task)]
    lines = [
        'TUNABLES = {"BLOCK": [256, 512, 1024, 2048], "WARPS": [2, 4, 8]}',
        'PARAMS = {"BLOCK": 1024, "WARPS": 4}',
        "",
        "# Shapes (row-major, contiguous):",
        *shapes,
        "",
        "",
        "@triton.jit",
        f"def kernel({', '.join(names)}, out, count, BLOCK: tl.constexpr):",
        "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "    inside = at < count",
        f"    value = tl.load({names[0]} + at, mask=inside)",
        "    # Fill in: the computation.",
        "    tl.store(out + at, value, mask=inside)",
        "",
        "",
        f"def run({', '.join(names)}):",
        f"    out = torch.empty_like({names[0]})",
        "    grid = (triton.cdiv(out.numel(), PARAMS['BLOCK']),)",
        (
            f"    kernel[grid]({', '.join(names)}, out, out.numel(), BLOCK=PARAMS['BLOCK'], "
            "num_warps=PARAMS['WARPS'])"
        ),
        "    return out",
    ]
    return "\n".join(lines)


_COMMON = (
    (
        "One Python file with `class ModelNew(nn.Module)`: the constructor and forward of the "
        "task's `Model` (or `kernel(*inputs)` for a task that defines `reference`)."
    ),
    (
        "Parameters have the reference's names; their values are copied in and change between "
        "calls, so keep no packed copy."
    ),
    (
        "Inputs are read-only; outputs are allocated by forward, with the reference's shapes and "
        "dtypes."
    ),
    (
        "The framework may allocate, make views and pass tensors; computing with its operators "
        "instead of the kernel needs a review (F = 0)."
    ),
    (
        'Literal TUNABLES = {"NAME": [choices]} and PARAMS = {"NAME": choice} let parameters be '
        "searched without rewriting; list those that change the algorithm in STRUCTURE = "
        '["NAME"].'
    ),
)
_BY_LANGUAGE = {
    "cpp": (
        (
            "Native text is built by `from harness.native import load_cpp`: load_cpp(SOURCE, "
            'flags=(...), defines={...}); functions are extern "C" with plain pointer and scalar '
            "arguments. Default flags: -O3 -march=native -std=c++17 -fopenmp."
        ),
        "Tensors must be contiguous where their pointer is taken. Timing uses one thread.",
    ),
    "triton": ("Kernels are @triton.jit functions of the same file; launch them from forward.",),
    "cuda": (
        (
            "CUDA C++ text is built by `from harness.native import load_cuda`: lib = "
            "load_cuda(SOURCE, flags=(...), defines={...}); its __global__ functions are launched "
            "on torch's stream by lib.name[grid, block, shared_bytes](tensors and numbers), "
            'instances of templates by lib["name<float, 4>"][grid, block](...), named at module '
            "level. Grid and block are ints or tuples."
        ),
        (
            "Tensors must be contiguous and on the device; their dtypes must fit the pointers, "
            "numbers their C types."
        ),
    ),
}


def format_rules(language: str) -> tuple[str, ...]:
    """Return one sentence for each rule; a language without its own rules has the common ones."""
    return (*_COMMON, *_BY_LANGUAGE.get(language, ()))
