"""A plain starting kernel: right, readable, slow as it stands. Its parameters decide how much the
compiler may do with it."""

import torch
import torch.nn as nn

from harness.native import load_cpp

STRUCTURE = ["PASSES", "STREAM"]
TUNABLES = {
    "LEVEL": ["-O1", "-O2", "-O3"],
    "MATH": ["strict", "associative", "fast"],
    "WIDTH": [128, 256, 512],
    "ACCUMULATORS": [1, 4, 16, 64],
    "PASSES": [3, 2],
    "STREAM": [0, 1],
}
PARAMS = {
    "LEVEL": "-O1",
    "MATH": "strict",
    "WIDTH": 128,
    "ACCUMULATORS": 1,
    "PASSES": 3,
    "STREAM": 0,
}

SOURCE = r"""
// Normalises rows of x + residual. ACCUMULATORS independent partial sums; PASSES 2: the sum of
// squares is taken while the row is written; STREAM 1: outputs that do not fit into the caches are
// written past them.
#include <cmath>
#include <cstdint>
#if defined(__AVX__)
#include <immintrin.h>
#endif

static const int64_t BLOCK = 1024;

static inline void copy_past_caches(const float* from, float* to, int64_t n) {
    int64_t j = 0;
#if defined(__AVX__)
    if (((uintptr_t)to & 31) == 0)
        for (; j + 8 <= n; j += 8) _mm256_stream_ps(to + j, _mm256_loadu_ps(from + j));
#endif
    for (; j < n; ++j) to[j] = from[j];
}

extern "C" void rmsnorm_residual(const float* x, const float* residual, const float* weight,
                                 float* y, float* total, int64_t rows, int64_t cols, float eps) {
    const bool stream = STREAM && rows * cols * 8 > (4 << 20);
    float block[BLOCK];
    for (int64_t r = 0; r < rows; ++r) {
        const float* __restrict xr = x + r * cols;
        const float* __restrict rr = residual + r * cols;
        float* __restrict tr = total + r * cols;
        float* __restrict yr = y + r * cols;
        float part[ACCUMULATORS] = {};
        const int64_t whole = cols / ACCUMULATORS * ACCUMULATORS;
        if (PASSES == 2) {
            for (int64_t c = 0; c < whole; c += ACCUMULATORS) {
                for (int a = 0; a < ACCUMULATORS; ++a) {
                    const float v = xr[c + a] + rr[c + a];
                    tr[c + a] = v;
                    part[a] += v * v;
                }
            }
            for (int64_t c = whole; c < cols; ++c) {
                tr[c] = xr[c] + rr[c];
                part[0] += tr[c] * tr[c];
            }
        } else {
            for (int64_t c = 0; c < cols; ++c) tr[c] = xr[c] + rr[c];
            for (int64_t c = 0; c < whole; c += ACCUMULATORS)
                for (int a = 0; a < ACCUMULATORS; ++a) part[a] += tr[c + a] * tr[c + a];
            for (int64_t c = whole; c < cols; ++c) part[0] += tr[c] * tr[c];
        }
        float sum = 0;
        for (int a = 0; a < ACCUMULATORS; ++a) sum += part[a];
        const float scale = 1.0f / std::sqrt(sum / (float)cols + eps);
        if (stream) {
            for (int64_t c = 0; c < cols; c += BLOCK) {
                const int64_t n = cols - c < BLOCK ? cols - c : BLOCK;
                for (int64_t j = 0; j < n; ++j) block[j] = tr[c + j] * scale * weight[c + j];
                copy_past_caches(block, yr + c, n);
            }
        } else {
            for (int64_t c = 0; c < cols; ++c) yr[c] = tr[c] * scale * weight[c];
        }
    }
#if defined(__AVX__)
    if (stream) _mm_sfence();
#endif
}
"""
_MATH = {
    "strict": (),
    "associative": (
        "-fassociative-math",
        "-fno-signed-zeros",
        "-fno-trapping-math",
        "-fno-math-errno",
    ),
    "fast": ("-ffast-math",),
}
_lib = load_cpp(
    SOURCE,
    flags=(PARAMS["LEVEL"], f"-mprefer-vector-width={PARAMS['WIDTH']}", *_MATH[PARAMS["MATH"]]),
    defines={name: PARAMS[name] for name in ("ACCUMULATORS", "PASSES", "STREAM")},
)


class ModelNew(nn.Module):
    def __init__(self, hidden, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.eps = eps

    def forward(self, x, residual):
        x, residual = x.contiguous(), residual.contiguous()
        y, total = torch.empty_like(x), torch.empty_like(x)
        cols = x.shape[-1]
        _lib.rmsnorm_residual(x, residual, self.weight, y, total, x.numel() // cols, cols, self.eps)
        return y, total
