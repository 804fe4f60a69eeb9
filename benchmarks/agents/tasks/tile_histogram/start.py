"""A plain starting kernel: right, readable, and slow as it stands."""

import torch
import torch.nn as nn

from harness.native import load_cpp

TUNABLES = {"LEVEL": ["-O1", "-O2", "-O3"], "MATH": ["-fno-fast-math", "-fno-math-errno"]}
PARAMS = {"LEVEL": "-O1", "MATH": "-fno-fast-math"}

SOURCE = r"""
#include <cstdint>

extern "C" void histogram(const int64_t* tiles, int64_t* counts, int64_t count, int64_t pixels) {
    for (int64_t t = 0; t < count; ++t) {
        for (int64_t level = 0; level < 64; ++level) counts[t * 64 + level] = 0;
        for (int64_t p = 0; p < pixels; ++p) counts[t * 64 + tiles[t * pixels + p]] += 1;
    }
}
"""
_lib = load_cpp(SOURCE, flags=(PARAMS["LEVEL"], PARAMS["MATH"]))


class ModelNew(nn.Module):
    def forward(self, tiles):
        counts = torch.empty(tiles.shape[0], 64, dtype=torch.int64)
        _lib.histogram(tiles.contiguous(), counts, *tiles.shape)
        return counts
