"""A plain starting kernel: right, readable, and slow as it stands."""

import torch
import torch.nn as nn

from harness.native import load_cpp

TUNABLES = {"LEVEL": ["-O1", "-O2", "-O3"], "MATH": ["-fno-fast-math", "-fno-math-errno"]}
PARAMS = {"LEVEL": "-O1", "MATH": "-fno-fast-math"}

SOURCE = r"""
#include <cstdint>

extern "C" void depthwise(const float* x, const float* weight, const float* bias, float* y,
                          int64_t planes, int64_t channels, int64_t height, int64_t width) {
    for (int64_t p = 0; p < planes; ++p)
        for (int64_t r = 0; r < height; ++r)
            for (int64_t c = 0; c < width; ++c) {
                float sum = bias[p % channels];
                for (int64_t i = 0; i < 3; ++i)
                    for (int64_t j = 0; j < 3; ++j) {
                        const int64_t row = r + i - 1, col = c + j - 1;
                        if (row >= 0 && row < height && col >= 0 && col < width)
                            sum += weight[(p % channels) * 9 + i * 3 + j] *
                                   x[(p * height + row) * width + col];
                    }
                const float gate = sum + 3 < 0 ? 0 : sum + 3 > 6 ? 6 : sum + 3;
                y[(p * height + r) * width + c] = sum * gate / 6;
            }
}
"""
_lib = load_cpp(SOURCE, flags=(PARAMS["LEVEL"], PARAMS["MATH"]))


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(channels, 1, 3, 3))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        batch, channels, height, width = x.shape
        y = torch.empty_like(x)
        _lib.depthwise(
            x.contiguous(), self.weight, self.bias, y, batch * channels, channels, height, width
        )
        return y
