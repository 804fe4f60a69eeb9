"""A plain starting kernel: the maximum, the sum of exponentials, the loss, row by row, with the C
library's expf."""

import torch
import torch.nn as nn

from harness.native import load_cpp

STRUCTURE = ["EXPONENTIAL", "CHUNK"]
TUNABLES = {
    "LEVEL": ["-O1", "-O2", "-O3"],
    "MATH": ["strict", "fast"],
    "WIDTH": [128, 256, 512],
    "ACCUMULATORS": [1, 16, 64],
    "EXPONENTIAL": ["library", "polynomial"],
    "CHUNK": [0, 1024, 4096],
    "PREFETCH": [0, 1024, 4096, 16384],
}
PARAMS = {
    "LEVEL": "-O1",
    "MATH": "strict",
    "WIDTH": 128,
    "ACCUMULATORS": 1,
    "EXPONENTIAL": "library",
    "CHUNK": 0,
    "PREFETCH": 0,
}

SOURCE = r"""
// ACCUMULATORS independent maxima and sums; CHUNK 0: two passes over the row, else the running form,
// so many logits at a time: the sum is rescaled when a chunk raises the maximum; PREFETCH: how many
// bytes ahead lines are requested.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#if POLYNOMIAL
// 2^t with t <= 0 split into integer and fraction; the polynomial has a relative error of 7.5e-8 on
// [-1/2, 1/2].
static inline float exponential(float x) {
    float t = x * 1.44269504f;
    t = t < -125.0f ? -125.0f : t;
    const float n = (float)(int32_t)(t - 0.5f);
    const float f = t - n;
    float p = 1.327646679e-03f * f + 9.675541293e-03f;
    p = p * f + 5.550713290e-02f;
    p = p * f + 2.402211972e-01f;
    p = p * f + 6.931469671e-01f;
    p = p * f + 1.000000072f;
    const int32_t scale = ((int32_t)n + 127) << 23;
    float power;
    std::memcpy(&power, &scale, 4);
    return p * power;
}
#else
static inline float exponential(float x) { return std::exp(x); }
#endif

static float maximum(const float* __restrict p, int64_t n) {
    float part[ACCUMULATORS];
    for (int a = 0; a < ACCUMULATORS; ++a) part[a] = p[0];
    const int64_t whole = n / ACCUMULATORS * ACCUMULATORS;
    for (int64_t c = 0; c < whole; c += ACCUMULATORS) {
#if PREFETCH
        for (int a = 0; a < ACCUMULATORS; a += 16)
            __builtin_prefetch((const char*)(p + c + a) + PREFETCH);
#endif
        for (int a = 0; a < ACCUMULATORS; ++a) part[a] = p[c + a] > part[a] ? p[c + a] : part[a];
    }
    for (int64_t c = whole; c < n; ++c) part[0] = p[c] > part[0] ? p[c] : part[0];
    float result = part[0];
    for (int a = 1; a < ACCUMULATORS; ++a) result = part[a] > result ? part[a] : result;
    return result;
}

static double sum_of_exponentials(const float* __restrict p, int64_t n, float top) {
    float part[ACCUMULATORS] = {};
    double sum = 0;
    const int64_t piece = 256 * ACCUMULATORS;  // single precision within a piece, double across
    for (int64_t start = 0; start < n; start += piece) {
        const int64_t end = start + piece < n ? start + piece : n;
        const int64_t whole = start + (end - start) / ACCUMULATORS * ACCUMULATORS;
        for (int64_t c = start; c < whole; c += ACCUMULATORS)
            for (int a = 0; a < ACCUMULATORS; ++a) part[a] += exponential(p[c + a] - top);
        for (int64_t c = whole; c < end; ++c) part[0] += exponential(p[c] - top);
        for (int a = 0; a < ACCUMULATORS; ++a) { sum += part[a]; part[a] = 0; }
    }
    return sum;
}

extern "C" void cross_entropy(const float* logits, const int64_t* target, float* loss,
                              int64_t rows, int64_t cols) {
    double all = 0;
    const int64_t chunk = CHUNK ? CHUNK : cols;
    for (int64_t r = 0; r < rows; ++r) {
        const float* p = logits + r * cols;
        double sum = 0;
        float top = -std::numeric_limits<float>::max();
        for (int64_t c = 0; c < cols; c += chunk) {
            const int64_t n = cols - c < chunk ? cols - c : chunk;
            const float here = maximum(p + c, n);
            if (here > top) {
                sum *= std::exp((double)top - (double)here);
                top = here;
            }
            sum += sum_of_exponentials(p + c, n, top);
        }
        if (target[r] < 0 || target[r] >= cols) { loss[0] = std::nanf(""); return; }
        all += std::log(sum) + (double)top - (double)p[target[r]];
    }
    loss[0] = (float)(all / (double)rows);
}
"""  # noqa: E501
_lib = load_cpp(
    SOURCE,
    flags=(
        PARAMS["LEVEL"],
        f"-mprefer-vector-width={PARAMS['WIDTH']}",
        *(
            ("-ffast-math",)
            if PARAMS["MATH"] == "fast"
            else ("-fno-math-errno", "-fno-trapping-math")
        ),
    ),
    defines={
        "ACCUMULATORS": PARAMS["ACCUMULATORS"],
        "CHUNK": PARAMS["CHUNK"],
        "PREFETCH": PARAMS["PREFETCH"],
        "POLYNOMIAL": PARAMS["EXPONENTIAL"] == "polynomial",
    },
)


class ModelNew(nn.Module):
    def forward(self, logits, target):
        loss = torch.empty((), dtype=torch.float32)
        rows, cols = logits.shape
        _lib.cross_entropy(logits.contiguous(), target.contiguous(), loss, rows, cols)
        return loss
