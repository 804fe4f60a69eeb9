"""A plain starting kernel: right, readable, and slow as it stands."""

import torch
import torch.nn as nn

from harness.native import load_cpp

TUNABLES = {"LEVEL": ["-O1", "-O2", "-O3"], "MATH": ["-fno-fast-math", "-fno-math-errno"]}
PARAMS = {"LEVEL": "-O1", "MATH": "-fno-fast-math"}

SOURCE = r"""
#include <cstdint>

extern "C" void medians(const float* x, float* y, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c + 4 < width; ++c) {
            float window[5];
            for (int64_t k = 0; k < 5; ++k) window[k] = x[r * width + c + k];
            for (int64_t k = 1; k < 5; ++k)
                for (int64_t j = k; j > 0 && window[j - 1] > window[j]; --j) {
                    const float held = window[j];
                    window[j] = window[j - 1];
                    window[j - 1] = held;
                }
            y[r * (width - 4) + c] = window[2];
        }
}
"""
_lib = load_cpp(SOURCE, flags=(PARAMS["LEVEL"], PARAMS["MATH"]))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, width = x.shape
        y = torch.empty(rows, width - 4)
        _lib.medians(x.contiguous(), y, rows, width)
        return y
