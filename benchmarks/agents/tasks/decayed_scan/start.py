"""A plain starting kernel: right, readable, and slow as it stands."""

import torch
import torch.nn as nn

from harness.native import load_cpp

TUNABLES = {"LEVEL": ["-O1", "-O2", "-O3"], "MATH": ["-fno-fast-math", "-fno-math-errno"]}
PARAMS = {"LEVEL": "-O1", "MATH": "-fno-fast-math"}

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" void scan(const float* arriving, const float* gate, float* out, int64_t batch,
                     int64_t steps, int64_t channels) {
    for (int64_t b = 0; b < batch; ++b)
        for (int64_t c = 0; c < channels; ++c) {
            float state = 0;
            for (int64_t s = 0; s < steps; ++s) {
                const int64_t at = (b * steps + s) * channels + c;
                state = state / (1.0f + std::exp(-gate[at])) + arriving[at];
                out[at] = state;
            }
        }
}
"""
_lib = load_cpp(SOURCE, flags=(PARAMS["LEVEL"], PARAMS["MATH"]))


class ModelNew(nn.Module):
    def forward(self, arriving, gate):
        out = torch.empty_like(arriving)
        _lib.scan(arriving.contiguous(), gate.contiguous(), out, *arriving.shape)
        return out
