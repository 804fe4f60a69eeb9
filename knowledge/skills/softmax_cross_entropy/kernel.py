import torch
import torch.nn as nn
from harness.native import load_cpp

ROLES = {
    "logits": "matrix",
    "target": "row index",
    "ignore_index": "number",
    "reduction": "choice mean sum none",
}
BINDING = {"reduction": "mean"}
STRUCTURE = ["CHUNK"]
TUNABLES = {
    "VECTOR": [8, 16],
    "UNROLL": [1, 2, 4, 8],
    "CHUNK": [512, 1024, 2048, 4096, 0],
    "EXP_DEGREE": [5, 6],
    "PREFETCH_BYTES": [0, 1024, 4096, 16384],
}
PARAMS = {"VECTOR": 16, "UNROLL": 4, "CHUNK": 1024, "EXP_DEGREE": 5, "PREFETCH_BYTES": 4096}

SOURCE = r'''
// loss(row) = log(sum exp(logit - max)) + max - logit[target]; the probabilities are never stored.
//   VECTOR, UNROLL   floats in one vector, independent accumulators
//   CHUNK            0: maximum of the whole row first, then the sum; else the running form: chunks of so many floats are read
//                    once from memory, their maximum found, the running sum rescaled only when the maximum grew, and the
//                    exponentials summed while the chunk is in the first-level cache
//   EXP_DEGREE       degree of the polynomial for 2^f, |f| <= 1/2: 5 has a relative error of 7.5e-8, 6 of 1.9e-9
//   PREFETCH_BYTES   how far ahead lines are requested while the maximum is found
#include <cmath>
#include <cstdint>
#include <limits>

#if !defined(__AVX512F__) && VECTOR > 8                // a vector wider than the machine's passes through memory: half as fast
#undef VECTOR
#define VECTOR 8
#endif
typedef float vec __attribute__((vector_size(VECTOR * 4)));
typedef float vec_u __attribute__((vector_size(VECTOR * 4), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(VECTOR * 4)));

static inline vec load(const float* p) { return *(const vec_u*)p; }

// exp for arguments <= 0; below -87 the result is 2^-126, which no float sum with a term of 1 can see.
static inline vec exp_vec(vec x) {
    vec t = x * 1.44269504088896341f;
    t = t > -125.0f ? t : vec{} - 125.0f;
    const float magic = 12582912.0f;                      // 1.5 * 2^23: adding it rounds to an integer
    vec shifted = t + magic;
    vec f = t - (shifted - magic);
#if EXP_DEGREE == 5
    vec p = 1.327646679e-03f * f + 9.675541293e-03f;
    p = p * f + 5.550713290e-02f;
    p = p * f + 2.402211972e-01f;
    p = p * f + 6.931469671e-01f;
    p = p * f + 1.000000072f;
#else
    vec p = 1.534580753e-04f * f + 1.339993118e-03f;
    p = p * f + 9.618488974e-03f;
    p = p * f + 5.550328777e-02f;
    p = p * f + 2.402264689e-01f;
    p = p * f + 6.931472057e-01f;
    p = p * f + 1.000000001f;
#endif
    ivec exponent = (ivec)shifted << 23;                  // the integer stands in the low bits of the shifted number
    return (vec)((ivec)p + exponent);
}

static inline float highest(vec v) {
    float m = v[0];
    for (int i = 1; i < VECTOR; ++i) m = v[i] > m ? v[i] : m;
    return m;
}

// The maximum of n floats; a NaN may be missed here, the sum will show it.
static inline float maximum(const float* p, int64_t n, int64_t ahead) {
    vec m[UNROLL];
    for (int u = 0; u < UNROLL; ++u) m[u] = vec{} - std::numeric_limits<float>::infinity();
    int64_t i = 0;
    for (; i + VECTOR * UNROLL <= n; i += VECTOR * UNROLL) {
#pragma GCC unroll 8
        for (int u = 0; u < UNROLL; ++u) {
            if (PREFETCH_BYTES && u * VECTOR % 16 == 0 && i < ahead) __builtin_prefetch((const char*)(p + i + u * VECTOR) + PREFETCH_BYTES);
            vec v = load(p + i + u * VECTOR);
            m[u] = v > m[u] ? v : m[u];
        }
    }
    for (; i + VECTOR <= n; i += VECTOR) { vec v = load(p + i); m[0] = v > m[0] ? v : m[0]; }
    for (int u = 1; u < UNROLL; ++u) m[0] = m[u] > m[0] ? m[u] : m[0];
    float result = highest(m[0]);
    for (; i < n; ++i) result = p[i] > result ? p[i] : result;
    return result;
}

static inline double sum_exp(const float* p, int64_t n, float top) {
    vec part[UNROLL] = {};
    int64_t i = 0;
    for (; i + VECTOR * UNROLL <= n; i += VECTOR * UNROLL) {
#pragma GCC unroll 8
        for (int u = 0; u < UNROLL; ++u) part[u] += exp_vec(load(p + i + u * VECTOR) - top);
    }
    for (; i + VECTOR <= n; i += VECTOR) part[0] += exp_vec(load(p + i) - top);
    for (int u = 1; u < UNROLL; ++u) part[0] += part[u];
    double result = 0;
    for (int k = 0; k < VECTOR; ++k) result += part[0][k];
    for (; i < n; ++i) result += std::exp(p[i] - top);
    return result;
}

static inline double row_loss(const float* p, int64_t cols, int64_t target, int64_t readable) {
    const int64_t chunk = CHUNK ? CHUNK : cols;
    float top = -std::numeric_limits<float>::infinity();
    double sum = 0;
    for (int64_t c = 0; c < cols; c += chunk) {
        const int64_t n = cols - c < chunk ? cols - c : chunk;
        const float here = maximum(p + c, n, readable - c);
        if (here > top) { sum *= std::exp((double)top - (double)here); top = here; }
        if (top == -std::numeric_limits<float>::infinity()) continue;
        sum += sum_exp(p + c, n, top);
    }
    return std::log(sum) + (double)top - (double)p[target];
}

// losses: one float a row, or one float in all when REDUCE is 1 (mean over the counted rows) or 2 (sum).
extern "C" void cross_entropy(const float* logits, const int64_t* target, float* losses, int64_t rows, int64_t cols, int64_t ignored) {
    double all = 0;
    int64_t counted = 0;
    for (int64_t r = 0; r < rows; ++r) {
        double loss = 0;
        if (target[r] != ignored) {
            const bool valid = target[r] >= 0 && target[r] < cols;
            loss = valid ? row_loss(logits + r * cols, cols, target[r], (rows - r) * cols) : std::nan("");
            ++counted;
        }
        all += loss;
        if (REDUCE == 0) losses[r] = (float)loss;
    }
    if (REDUCE == 1) losses[0] = (float)(all / (double)counted);
    if (REDUCE == 2) losses[0] = (float)all;
}
'''
_lib = load_cpp(SOURCE, defines={**PARAMS, "REDUCE": {"none": 0, "mean": 1, "sum": 2}[BINDING["reduction"]]})


def run(logits, target, ignore_index=-100):
    rows, cols = logits.shape
    losses = logits.new_empty(rows) if BINDING["reduction"] == "none" else logits.new_empty(())
    _lib.cross_entropy(logits.contiguous(), target.contiguous(), losses, rows, cols, int(ignore_index))
    return losses
