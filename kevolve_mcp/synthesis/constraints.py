"""The rules of the candidate format in words, shared by prompts and templates."""

from __future__ import annotations

_COMMON = (
    (
        "One Python file with `class ModelNew(nn.Module)`: the constructor and forward of the "
        "task's `Model` (or `kernel(*inputs)` for a task that defines `reference`)."
    ),
    (
        "Parameters carry the names of the reference's; their values are copied in and change "
        "between calls: keep no packed copy."
    ),
    (
        "Inputs are read-only; outputs are allocated by forward, with the reference's shapes and "
        "dtypes."
    ),
    (
        "The framework may allocate, view and hand over; computing with its operators instead of "
        "the kernel needs a review (F = 0)."
    ),
    (
        'Literal TUNABLES = {"NAME": [choices]} and PARAMS = {"NAME": choice} let parameters be '
        "searched without rewriting; name the ones that change the algorithm in STRUCTURE = "
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
    """One sentence for each rule; a language without rules of its own has the common ones."""
    return (*_COMMON, *_BY_LANGUAGE.get(language, ()))
