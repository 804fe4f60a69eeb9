"""Small tasks with real C++ kernels, and evaluations that a judge could have given for them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from harness.types import (
    Candidate,
    Case,
    CaseResult,
    Environment,
    Evaluation,
    Signal,
    Task,
    TensorSpec,
)

ENVIRONMENT = Environment(
    "cpu:Test:avx2:l3=32M", "torch 2.13.0+cpu, g++ 12.2.0, python 3.11.7", "namespaces", "reuse"
)


def spec(dtype: str, *shape: int) -> TensorSpec:
    stride, strides = 1, list[int]()
    for n in reversed(shape):
        strides.insert(0, stride)
        stride *= n
    return TensorSpec(shape, dtype, tuple(strides), stride * 4)


@dataclass(frozen=True)
class Sample:
    task: Task
    candidate: Candidate
    evaluation: Evaluation


def sample(
    name: str,
    source: str,
    kernel: str,
    cases: tuple[Case, ...],
    verdicts: dict[str, str],
    *,
    gradients: bool = False,
) -> Sample:
    task = Task(
        name,
        hashlib.sha256(source.encode()).hexdigest(),
        source,
        f"/tasks/{name}.py",
        cases,
        gradients=gradients,
    )
    candidate = Candidate(kernel, "cpp")
    return Sample(task, candidate, evaluation_of(task, candidate, verdicts))


def evaluation_of(
    task: Task, candidate: Candidate, verdicts: dict[str, str], **changes: object
) -> Evaluation:
    speeds = {
        "faster": (1.8, (1.7, 1.9)),
        "equivalent": (1.0, (0.99, 1.01)),
        "slower": (0.7, (0.6, 0.8)),
        "inconclusive": (1.1, (0.9, 1.3)),
    }
    results = tuple(
        CaseResult(
            c.name,
            held_out=c.held_out,
            correct=True,
            error=1e-7,
            framework_error=1e-7,
            tolerance=1e-5,
            speedup=speeds[verdicts[c.name]][0],
            interval=speeds[verdicts[c.name]][1],
            verdict=verdicts[c.name],  # type: ignore[arg-type]
            baseline="eager",
            baselines={"eager": 9.0, "compile": 12.0},
            latency_us=9.0 / speeds[verdicts[c.name]][0],
            naive_speedup=15.0 if i == 0 else None,
            arguments=dict(c.arguments) if c.held_out else {},
        )
        for i, c in enumerate(task.cases)
    )
    values: dict[str, object] = {
        "purpose": "confirm",
        "status": "correct",
        "message": "correct in all cases",
        "signals": (Signal("memory_bound"),),
        "fitness": 1.7,
        "eligible": True,
        "cases": results,
    }
    return Evaluation(
        candidate=candidate.digest,
        language="cpp",
        task=task.digest,
        target="cpu",
        policy="library_calls=flag",
        environment=ENVIRONMENT,
        **(values | changes),  # type: ignore[arg-type]
    )


def scale_norm() -> Sample:
    """Parameters, a buffer, gradients not asked for; faster in two cases, one of them with other
    constructor arguments."""
    return sample(
        "scale-norm",
        """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, hidden, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(hidden))
        self.register_buffer("shift", torch.full((hidden,), 0.5))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight + self.shift

CASES = {
    "small": {"rows": 4, "hidden": 32}, "wide": {"rows": 4, "hidden": 64}, "tall": {"rows": 9, "hidden": 32},
    "hidden": {"rows": 6, "hidden": 32},
}

def get_inputs(rows=4, hidden=32):
    return [torch.randn(rows, hidden)]

def get_init_inputs(hidden=32):
    return [hidden]
""",  # noqa: E501
        '''
import torch
import torch.nn as nn
from harness.native import load_cpp

SOURCE = r"""
#include <cmath>
#include <cstdint>
extern "C" void norm(const float* x, const float* w, const float* b, float* y, int64_t rows, int64_t cols, float eps) {
  for (int64_t r = 0; r < rows; ++r) {
    double s = 0;
    for (int64_t c = 0; c < cols; ++c) s += (double)x[r * cols + c] * x[r * cols + c];
    float k = (float)(1.0 / std::sqrt(s / cols + eps));
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = x[r * cols + c] * k * w[c] + b[c];
  }
}
"""
_lib = load_cpp(SOURCE)
CALLS = []

class ModelNew(nn.Module):
    def __init__(self, hidden, eps=1e-6):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(hidden))
        self.register_buffer("shift", torch.zeros(hidden))
        self.eps = eps

    def forward(self, x):
        CALLS.append(tuple(x.shape))
        y = torch.empty_like(x)
        _lib.norm(x, self.gain, self.shift, y, x.shape[0], x.shape[1], self.eps)
        return y
''',  # noqa: E501
        (
            Case("small", arguments={"rows": 4, "hidden": 32}, inputs=(spec("float32", 4, 32),)),
            Case("wide", arguments={"rows": 4, "hidden": 64}, inputs=(spec("float32", 4, 64),)),
            Case("tall", arguments={"rows": 9, "hidden": 32}, inputs=(spec("float32", 9, 32),)),
            Case(
                "hidden",
                held_out=True,
                arguments={"rows": 6, "hidden": 32},
                inputs=(spec("float32", 6, 32),),
            ),
        ),
        {"small": "faster", "wide": "inconclusive", "tall": "faster", "hidden": "faster"},
    )


def min_max() -> Sample:
    """Two outputs, no parameters, an unmodified file without CASES; one int64 output."""
    return sample(
        "min_max",
        """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        values, places = x.max(-1)
        return values, places

def get_inputs():
    return [torch.randn(5, 17)]

def get_init_inputs():
    return []
""",
        '''
import torch
import torch.nn as nn
import harness.native as hn

_lib = hn.load_cpp(r"""
#include <cstdint>
extern "C" void rowmax(const float* x, float* v, int64_t* p, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r) {
    int64_t best = 0;
    for (int64_t c = 1; c < cols; ++c) if (x[r * cols + c] > x[r * cols + best]) best = c;
    v[r] = x[r * cols + best];
    p[r] = best;
  }
}
""")

class ModelNew(nn.Module):
    def forward(self, x):
        v, p = x.new_empty(x.shape[0]), torch.empty(x.shape[0], dtype=torch.int64)
        _lib.rowmax(x, v, p, x.shape[0], x.shape[1])
        return v, p
''',
        (Case("default", inputs=(spec("float32", 5, 17),)),),
        {"default": "faster"},
    )


def mixed() -> Sample:
    """A list of tensors, an int, a float, None, a string and a bool as inputs; a list as the
    result, with gradients."""
    return sample(
        "Mixed Inputs 2",
        """
import torch
import torch.nn as nn

GRADIENTS = True

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.5]))

    def forward(self, pair, power, alpha, bias, mode, flag):
        y = alpha * pair[0] * pair[1] * self.scale + power
        if bias is not None:
            y = y + bias
        return [y, -y] if mode == "both" and flag else [y]

def get_inputs(n=8, power=3, biased=False):
    return [[torch.randn(n), torch.randn(n)], power, 0.25, torch.randn(n) if biased else None, "both", True]

def get_init_inputs():
    return []
""",  # noqa: E501
        '''
import torch
import torch.nn as nn
from harness import native

_lib = native.load_cpp(r"""
#include <cstdint>
extern "C" void fma(const float* a, const float* b, float s, float k, const float* bias, float* y, float* z, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = a[i] * b[i] * s + k + (bias ? bias[i] : 0.0f);
    z[i] = -y[i];
  }
}
""", signatures={"fma": "ppffpppl"})

class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, scale, bias, alpha, power):
        ctx.save_for_backward(a, b, scale)
        ctx.alpha = alpha
        y, z = torch.empty_like(a), torch.empty_like(a)
        _lib.fma(a, b, alpha * float(scale.detach()), float(power), bias if bias is not None else 0, y, z, a.numel())
        return y, z

    @staticmethod
    def backward(ctx, gy, gz):
        a, b, scale = ctx.saved_tensors
        g = (gy - gz) * ctx.alpha
        bias = gy - gz if ctx.needs_input_grad[3] else None
        return g * b * scale, g * a * scale, (g * a * b).sum().reshape(1), bias, None, None

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(1))

    def forward(self, pair, power, alpha, bias, mode, flag):
        return list(Function.apply(pair[0], pair[1], self.scale, bias, alpha, power))
''',  # noqa: E501
        (
            Case("plain", arguments={"n": 8}, inputs=(spec("float32", 8), spec("float32", 8))),
            Case("biased", arguments={"n": 8, "biased": True}, inputs=(spec("float32", 8),) * 3),
        ),
        {"plain": "faster", "biased": "faster"},
        gradients=True,
    )


def double_it() -> Sample:
    """The sugar form on both sides."""
    return sample(
        "double_it",
        """
import torch

def reference(x, times):
    return x * times

def get_inputs():
    return [torch.randn(3, 7), 2]
""",
        '''
import torch
from harness.native import (
    load_cpp,
)

_lib = load_cpp("""
#include <cstdint>
extern "C" void times(const float* x, float* y, int64_t n, float k) { for (int64_t i = 0; i < n; ++i) y[i] = x[i] * k; }
""")

def kernel(x, times):
    y = torch.empty_like(x)
    _lib.times(x, y, x.numel(), times)
    return y
''',  # noqa: E501
        (Case("default", inputs=(spec("float32", 3, 7),)),),
        {"default": "faster"},
    )
