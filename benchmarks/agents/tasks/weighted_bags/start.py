"""A plain starting kernel: right, readable, and slow as it stands."""

import torch
import torch.nn as nn

from harness.native import load_cpp

TUNABLES = {"LEVEL": ["-O1", "-O2", "-O3"], "MATH": ["-fno-fast-math", "-fno-math-errno"]}
PARAMS = {"LEVEL": "-O1", "MATH": "-fno-fast-math"}

SOURCE = r"""
#include <cstdint>

extern "C" void bags(const float* table, const int64_t* ids, const float* weights, float* out,
                     int64_t count, int64_t size, int64_t width) {
    for (int64_t b = 0; b < count; ++b)
        for (int64_t c = 0; c < width; ++c) {
            float sum = 0;
            for (int64_t k = 0; k < size; ++k)
                sum += table[ids[b * size + k] * width + c] * weights[b * size + k];
            out[b * width + c] = sum;
        }
}
"""
_lib = load_cpp(SOURCE, flags=(PARAMS["LEVEL"], PARAMS["MATH"]))


class ModelNew(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(rows, width))

    def forward(self, ids, weights):
        (count, size), width = ids.shape, self.table.shape[1]
        out = torch.empty(count, width)
        _lib.bags(self.table, ids.contiguous(), weights.contiguous(), out, count, size, width)
        return out
