import torch
import torch.nn as nn
from harness.native import load_cpp

ROLES = "elementwise"
STRUCTURE = []
TUNABLES = {
    "BLOCK": [128, 256, 512, 1024, 2048],
    "VECTOR_BITS": [256, 512],
    "STREAM_ABOVE_KIB": [-1, 256, 1024, 8192],
    "PREFETCH_BYTES": [0, 512, 2048],
    "UNROLL_LOOPS": [0, 1],
}
PARAMS = {"BLOCK": 512, "VECTOR_BITS": 512, "STREAM_ABOVE_KIB": 1024, "PREFETCH_BYTES": 0, "UNROLL_LOOPS": 0}

SOURCE = r'''
// The whole chain in one loop: every input is read once, every output written once, nothing in between touches memory.
//   BLOCK             elements of one run of the vector loop
//   STREAM_ABOVE_KIB  outputs larger than this pass through a block in the first-level cache and are then written past the
//                     caches, which saves reading their lines first (-1: never)
//   PREFETCH_BYTES    how far ahead input lines are requested
#include <cmath>
#include <cstdint>
#include <cstring>
#if defined(__AVX__)
#include <immintrin.h>
#endif

template <class To, class From> static inline To bits(From from) { return __builtin_bit_cast(To, from); }
static inline float k_max(float a, float b) { return a > b || a != a ? a : b; }   // NaN stays NaN
static inline float k_min(float a, float b) { return a < b || a != a ? a : b; }
// 2^t, t clamped to the range of float; relative error 2e-9 before rounding. The scale is applied in two halves, so that the
// ends of the range neither overflow nor vanish early.
static inline float k_exp2(float t, float low) {
    t = t > 129.0f ? 129.0f : t < -151.0f ? -151.0f : t;
    const float shifted = t + 12582912.0f;
    const float f = (t - (shifted - 12582912.0f)) + low;
    float p = 1.534580753e-04f * f + 1.339993118e-03f;
    p = p * f + 9.618488974e-03f;
    p = p * f + 5.550328777e-02f;
    p = p * f + 2.402264689e-01f;
    p = p * f + 6.931472057e-01f;
    p = p * f + 1.0f;
    const int32_t n = (int32_t)(bits<uint32_t>(shifted) & 0x3ff) - ((bits<uint32_t>(shifted) & 0x200) ? 0x400 : 0);
    const int32_t half = n >> 1;
    return p * bits<float>((half + 127) << 23) * bits<float>((n - half + 127) << 23);
}
static inline float k_exp(float x) {
    const float t = x * 1.44269504f;
    const float low = std::fmaf(x, 1.44269504f, -t) + x * 1.92596299e-8f;
    return k_exp2(t, x > 90.0f || x < -105.0f ? 0.0f : low);
}
static inline float k_log1p_small(float z) {               // log(1 + z), z in [sqrt(1/2) - 1, sqrt(2) - 1]
    float p = -7.621018514e-02f * z + 1.290460809e-01f;
    p = p * z - 1.324347625e-01f;
    p = p * z + 1.418184475e-01f;
    p = p * z - 1.660901213e-01f;
    p = p * z + 2.000196794e-01f;
    p = p * z - 2.500158656e-01f;
    p = p * z + 3.333332600e-01f;
    p = p * z - 4.999998829e-01f;
    return z + z * (z * p);
}
static inline float k_log(float x) {
    const float tiny = x < 1.17549435e-38f ? 8388608.0f : 1.0f;
    const int32_t b = bits<int32_t>(x * tiny);
    const int32_t e = (b - 0x3f3504f3) >> 23;
    const float m = bits<float>(b - (e << 23));
    const float scale = (float)e - (tiny > 1.0f ? 23.0f : 0.0f);
    const float r = k_log1p_small(m - 1.0f) + scale * 0.693147181f;
    return x > 0.0f ? (x < INFINITY ? r : x) : (x == 0.0f ? -INFINITY : NAN);
}
static inline float k_log1p(float x) { return x > -0.29f && x < 0.41f ? k_log1p_small(x) : k_log(1.0f + x); }
static inline float k_sigmoid(float x) { return 1.0f / (1.0f + k_exp(-x)); }
// tanh and erf: x P(x^2) / Q(x^2), fitted for the smallest greatest relative error up to where the result is 1 in single precision
// (1.3e-8 and 1.9e-8 before rounding).
static inline float k_tanh(float x) {
    const float u = x * x;
    float p = 1.408287742e-08f * u + 2.112270303e-05f;
    p = p * u + 3.526422345e-03f;
    p = p * u + 1.340689320e-01f;
    p = p * u + 9.999999868e-01f;
    float q = 8.070811511e-07f * u + 3.336303347e-04f;
    q = q * u + 2.599398021e-02f;
    q = q * u + 4.674021475e-01f;
    q = q * u + 1.0f;
    return std::fabs(x) > 8.6f ? std::copysign(1.0f, x) : x * p / q;
}
static inline float k_expm1(float x) {                     // tanh(x/2) keeps the small digits: e^x - 1 = 2t / (1 - t)
    const float t = k_tanh(0.5f * x), e = k_exp(x) - 1.0f;
    return std::fabs(x) < 0.5f ? 2.0f * t / (1.0f - t) : e;
}
static inline float k_softplus(float x) { return x > 20.0f ? x : k_log1p(k_exp(x > 20.0f ? 20.0f : x)); }
static inline float k_erf(float x) {
    const float u = x * x;
    float p = 2.050033174e-06f * u + 2.848751487e-04f;
    p = p * u + 3.765514803e-03f;
    p = p * u + 5.274840652e-02f;
    p = p * u + 1.904048033e-01f;
    p = p * u + 1.128379146f;
    float q = 3.809075371e-05f * u + 1.162500551e-03f;
    q = q * u + 1.496902228e-02f;
    q = q * u + 1.141083346e-01f;
    q = q * u + 5.020746059e-01f;
    q = q * u + 1.0f;
    return std::fabs(x) > 3.92f ? std::copysign(1.0f, x) : x * p / q;
}
static inline float k_gelu(float x) { return 0.5f * x * (1.0f + k_erf(x * 0.707106781f)); }
static inline float k_gelu_tanh(float x) { return 0.5f * x * (1.0f + k_tanh(0.797884561f * (x + 0.044715f * x * x * x))); }

static inline void flush(const float* from, float* to, int64_t n) {
    int64_t j = 0;
#if defined(__AVX512F__)
    for (; j + 16 <= n; j += 16) _mm512_stream_ps(to + j, _mm512_load_ps(from + j));
#elif defined(__AVX__)
    for (; j + 8 <= n; j += 8) _mm256_stream_ps(to + j, _mm256_load_ps(from + j));
#endif
    for (; j < n; ++j) to[j] = from[j];
}

extern "C" void pointwise(@SIGNATURE@, int64_t rows, int64_t cols) {
    @BUFFERS@
    const bool aligned = ((@ALIGNED@) & 63) == 0 && (rows == 1 || cols % 16 == 0);
    const bool stream = STREAM_ABOVE_KIB >= 0 && aligned && rows * cols * 4 * @OUTPUTS@ > (int64_t)STREAM_ABOVE_KIB * 1024;
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; c += BLOCK) {
            const int64_t n = cols - c < BLOCK ? cols - c : BLOCK, at = r * cols + c;
            @POINTERS@
#if PREFETCH_BYTES
            for (int64_t j = 0; j < n; j += 16) { @PREFETCH@ }
#endif
#pragma omp simd
            for (int64_t j = 0; j < n; ++j) {
                @BODY@
            }
            if (stream) { @FLUSH@ }
        }
    }
#if defined(__AVX__)
    if (stream) _mm_sfence();
#endif
}
'''
_flags = ("-fno-math-errno", "-fno-trapping-math", f"-mprefer-vector-width={PARAMS['VECTOR_BITS']}")
if PARAMS["UNROLL_LOOPS"]:
    _flags = (*_flags, "-funroll-loops")
_lib = load_cpp(
    SOURCE,
    flags=_flags,
    defines={k: PARAMS[k] for k in ("BLOCK", "STREAM_ABOVE_KIB", "PREFETCH_BYTES")},
)


# @RUN@
