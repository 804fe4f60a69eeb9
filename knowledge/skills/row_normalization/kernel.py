import torch
import torch.nn as nn
from harness.native import load_cpp

ROLES = {
    "x": "rows",
    "residual": "rows?",
    "weight": "cols?",
    "bias": "cols?",
    "eps": "scalar",
    "centered": "choice 0 1",
    "returns": "choice normalized normalized,sum sum,normalized",
}
BINDING = {"residual": 1, "weight": 1, "bias": 0, "centered": 0, "returns": "normalized,sum"}
STRUCTURE = ["STAGE"]
TUNABLES = {
    "VECTOR": [8, 16],
    "UNROLL": [1, 2, 4, 8],
    "STREAM_ABOVE_KIB": [-1, 256, 1024, 8192],
    "STAGE": [0, 1],
    "PREFETCH_ROWS": [0, 1, 2],
}
PARAMS = {"VECTOR": 16, "UNROLL": 4, "STREAM_ABOVE_KIB": 256, "STAGE": 0, "PREFETCH_ROWS": 1}

SOURCE = r'''
// One row at a time. The first pass adds the residual and accumulates the statistics; the second normalises while the row is
// still in the first-level cache, so every array crosses the memory bus once.
//   RESIDUAL, WEIGHT, BIAS, CENTERED, SUM   what the task needs (SUM: x + residual is an output, too)
//   VECTOR            floats in one vector
//   UNROLL            independent accumulators: hide the latency of the addition
//   STREAM_ABOVE_KIB  outputs larger than this are written past the caches (-1: never)
//   STAGE             1: between the passes the sum stands in a small buffer even where it is an output
//   PREFETCH_ROWS     how many rows ahead lines are requested during the second pass
#include <cmath>
#include <cstdint>
#include <memory>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#if !defined(__AVX512F__) && VECTOR > 8                // a vector wider than the machine's passes through memory: half as fast
#undef VECTOR
#define VECTOR 8
#endif
typedef float vec __attribute__((vector_size(VECTOR * 4)));
typedef float vec_u __attribute__((vector_size(VECTOR * 4), aligned(4), may_alias));

static inline vec load(const float* p) { return *(const vec_u*)p; }
static inline void store(float* p, vec v) { *(vec_u*)p = v; }
template <bool NT> static inline void put(float* p, vec v) {
#if defined(__AVX512F__) && VECTOR == 16
    if (NT) { _mm512_stream_ps(p, (__m512)v); return; }
#elif defined(__AVX__) && VECTOR == 8
    if (NT) { _mm256_stream_ps(p, (__m256)v); return; }
#endif
    store(p, v);
}
static inline float total(const vec* part) {
    vec sum = part[0];
    for (int u = 1; u < UNROLL; ++u) sum += part[u];
    float result = 0;
    for (int i = 0; i < VECTOR; ++i) result += sum[i];
    return result;
}

// Calls body(offset, lane) for every whole vector of a row, UNROLL of them at a time.
template <class Body> static inline __attribute__((always_inline)) int64_t vectors(int64_t cols, Body body) {
    const int64_t step = (int64_t)VECTOR * UNROLL, whole = cols / step * step, packed = cols / VECTOR * VECTOR;
    int64_t i = 0;
    for (; i < whole; i += step) {
#pragma GCC unroll 8
        for (int u = 0; u < UNROLL; ++u) body(i + u * VECTOR, u);
    }
    for (; i < packed; i += VECTOR) body(i, 0);
    return i;
}

template <bool NT, bool STAGED>
static void run(const float* __restrict x, const float* __restrict r, const float* __restrict w, const float* __restrict b,
                float* __restrict y, float* __restrict sum, float* __restrict buffer, int64_t rows, int64_t cols, float eps) {
    for (int64_t row = 0; row < rows; ++row) {
        const float* xr = x + row * cols;
        const float* rr = RESIDUAL ? r + row * cols : nullptr;
        float* sr = SUM ? sum + row * cols : nullptr;
        float* yr = y + row * cols;
        float* kept = STAGED ? buffer : sr;               // where the sum stands between the passes
        const float* src = RESIDUAL ? kept : xr;
        vec part[UNROLL] = {};
        int64_t i = vectors(cols, [&](int64_t k, int u) {
            vec v = load(xr + k);
            if (RESIDUAL) {
                v += load(rr + k);
                store(kept + k, v);
                if (SUM && STAGED) put<NT>(sr + k, v);
            }
            if (CENTERED) part[u] += v; else part[u] += v * v;
        });
        float rest = 0;
        for (; i < cols; ++i) {
            float v = xr[i];
            if (RESIDUAL) { v += rr[i]; kept[i] = v; if (SUM && STAGED) sr[i] = v; }
            rest += CENTERED ? v : v * v;
        }
        float power = (total(part) + rest) / (float)cols, mean = 0;
        if (CENTERED) {                                   // the squared distances from the mean, from the cache: no cancellation
            mean = power;
            vec square[UNROLL] = {};
            i = vectors(cols, [&](int64_t k, int u) { vec d = load(src + k) - mean; square[u] += d * d; });
            rest = 0;
            for (; i < cols; ++i) rest += (src[i] - mean) * (src[i] - mean);
            power = (total(square) + rest) / (float)cols;
        }
        const float scale = 1.0f / std::sqrt(power + eps);
        const bool ahead = PREFETCH_ROWS > 0 && row + PREFETCH_ROWS < rows;
        i = vectors(cols, [&](int64_t k, int) {
            if (ahead && k % 16 == 0) {                   // once for each line of 64 bytes
                __builtin_prefetch(xr + PREFETCH_ROWS * cols + k);
                if (RESIDUAL) __builtin_prefetch(rr + PREFETCH_ROWS * cols + k);
            }
            vec v = load(src + k);
            if (CENTERED) v -= mean;
            v *= scale;
            if (WEIGHT) v *= load(w + k);
            if (BIAS) v += load(b + k);
            put<NT>(yr + k, v);
        });
        for (; i < cols; ++i) {
            float v = (src[i] - mean) * scale;
            if (WEIGHT) v *= w[i];
            if (BIAS) v += b[i];
            yr[i] = v;
        }
    }
#if defined(__AVX__)
    if (NT) _mm_sfence();
#endif
}

extern "C" void normalize_rows(const float* x, const float* residual, const float* weight, const float* bias, float* y, float* sum,
                               int64_t rows, int64_t cols, float eps) {
    const bool aligned = cols % VECTOR == 0 && (((uintptr_t)y | (uintptr_t)(SUM ? sum : y)) & (VECTOR * 4 - 1)) == 0;
    const bool stream = STREAM_ABOVE_KIB >= 0 && aligned && rows * cols * 4 * (1 + SUM) > (int64_t)STREAM_ABOVE_KIB * 1024;
    const bool staged = RESIDUAL && (STAGE || stream || !SUM);
    std::unique_ptr<float[]> buffer(staged ? new float[cols] : nullptr);
    float* k = buffer.get();
    if (staged && stream) run<true, true>(x, residual, weight, bias, y, sum, k, rows, cols, eps);
    else if (staged) run<false, true>(x, residual, weight, bias, y, sum, k, rows, cols, eps);
    else if (stream) run<true, false>(x, residual, weight, bias, y, sum, k, rows, cols, eps);
    else run<false, false>(x, residual, weight, bias, y, sum, k, rows, cols, eps);
}
'''
SUM = int("sum" in BINDING["returns"])
_lib = load_cpp(
    SOURCE,
    defines={
        **PARAMS,
        "RESIDUAL": BINDING["residual"],
        "WEIGHT": BINDING["weight"],
        "BIAS": BINDING["bias"],
        "CENTERED": BINDING["centered"],
        "SUM": SUM,
    },
)


def run(x, residual=None, weight=None, bias=None, eps=1e-6):
    x = x.contiguous()
    residual = None if residual is None else residual.expand_as(x).contiguous()
    weight = None if weight is None else weight.contiguous()
    bias = None if bias is None else bias.contiguous()
    y = torch.empty_like(x)
    total = torch.empty_like(x) if SUM else None
    cols = x.shape[-1]
    _lib.normalize_rows(x, residual, weight, bias, y, total, x.numel() // cols if cols else 0, cols, float(eps))
    made = {"normalized": y, "sum": total}
    names = BINDING["returns"].split(",")
    return made[names[0]] if len(names) == 1 else tuple(made[n] for n in names)
