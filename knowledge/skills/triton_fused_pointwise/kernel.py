import torch
import torch.nn as nn
import triton
import triton.language as tl

ROLES = "elementwise"
STRUCTURE = []
TUNABLES = {
    "BLOCK": [256, 512, 1024, 2048, 4096],
    "LOOP": [1, 2, 4],
    "WARPS": [2, 4, 8],
    "EVICTION": ["", "evict_first"],
}
PARAMS = {"BLOCK": 1024, "LOOP": 1, "WARPS": 4, "EVICTION": ""}

# The whole chain in one kernel: every input is read once, every output written once, in between everything is float32.
#   BLOCK      elements of one step; LOOP: steps of one program
#   EVICTION   evict_first: inputs that are read once do not push out what others keep in the cache


@triton.jit
def k_max(a, b):
    return tl.where((a > b) | (a != a), a, b)  # NaN stays NaN


@triton.jit
def k_min(a, b):
    return tl.where((a < b) | (a != a), a, b)


@triton.jit
def k_exp(x):
    return tl.exp(x)


@triton.jit
def k_log(x):
    return tl.log(x)


@triton.jit
def k_erf(x):
    return tl.erf(x)


@triton.jit
def k_log1p(x):  # near 0: 2 artanh(x / (2 + x))
    near = tl.abs(x) < 0.4
    s = tl.where(near, x / (2.0 + x), 0.0)
    q = s * s
    p = 1.0 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * (1 / 11)))))
    return tl.where(near, 2.0 * s * p, tl.log(1.0 + x))


@triton.jit
def k_expm1(x):  # near 0: the series
    near = tl.abs(x) < 0.5
    z = tl.where(near, x, 0.0)
    p = 1.0 + z / 2 * (1.0 + z / 3 * (1.0 + z / 4 * (1.0 + z / 5 * (1.0 + z / 6 * (1.0 + z / 7 * (1.0 + z / 8))))))
    return tl.where(near, z * p, tl.exp(x) - 1.0)


@triton.jit
def k_sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def k_tanh(x):
    e = k_expm1(-2.0 * tl.abs(x))
    size = -e / (2.0 + e)
    return tl.where(x < 0.0, -size, size)


@triton.jit
def k_softplus(x):
    return tl.where(x > 20.0, x, k_log1p(tl.exp(tl.where(x > 20.0, 20.0, x))))


@triton.jit
def k_gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def k_gelu_tanh(x):
    return 0.5 * x * (1.0 + k_tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


# @KERNEL@


# @RUN@
