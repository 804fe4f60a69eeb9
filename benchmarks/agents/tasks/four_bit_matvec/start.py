"""A plain starting kernel: right, readable, and slow as it stands."""

import torch
import torch.nn as nn

from harness.native import load_cpp

TUNABLES = {"LEVEL": ["-O1", "-O2", "-O3"], "MATH": ["-fno-fast-math", "-fno-math-errno"]}
PARAMS = {"LEVEL": "-O1", "MATH": "-fno-fast-math"}

SOURCE = r"""
#include <cstdint>

extern "C" void matvec(const uint8_t* packed, const float* scale, const float* x, float* y,
                       int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; ++r) {
        float sum = 0;
        for (int64_t c = 0; c < width; ++c) {
            const uint8_t both = packed[r * (width / 2) + c / 2];
            const int weight = (c % 2 ? both >> 4 : both & 15) - 8;
            sum += weight * scale[r * (width / 64) + c / 64] * x[c];
        }
        y[r] = sum;
    }
}
"""
_lib = load_cpp(SOURCE, flags=(PARAMS["LEVEL"], PARAMS["MATH"]))


class ModelNew(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.register_buffer("packed", torch.zeros(rows, width // 2, dtype=torch.uint8))
        self.scale = nn.Parameter(torch.zeros(rows, width // 64))

    def forward(self, x):
        y = torch.empty(self.packed.shape[0])
        _lib.matvec(self.packed, self.scale, x.contiguous(), y, y.shape[0], x.shape[0])
        return y
