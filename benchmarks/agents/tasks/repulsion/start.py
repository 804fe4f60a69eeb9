"""A plain starting kernel: right, readable, and slow as it stands."""

import torch
import torch.nn as nn

from harness.native import load_cpp

TUNABLES = {"LEVEL": ["-O1", "-O2", "-O3"], "MATH": ["-fno-fast-math", "-fno-math-errno"]}
PARAMS = {"LEVEL": "-O1", "MATH": "-fno-fast-math"}

SOURCE = r"""
#include <cstdint>

extern "C" void forces(const float* points, const float* others, float* out, int64_t n, int64_t m) {
    for (int64_t i = 0; i < n; ++i) {
        float across = 0, along = 0;
        for (int64_t j = 0; j < m; ++j) {
            const float dx = points[2 * i] - others[2 * j];
            const float dy = points[2 * i + 1] - others[2 * j + 1];
            const float weight = 1.0f / (1.0f + dx * dx + dy * dy);
            across += dx * weight * weight;
            along += dy * weight * weight;
        }
        out[2 * i] = across;
        out[2 * i + 1] = along;
    }
}
"""
_lib = load_cpp(SOURCE, flags=(PARAMS["LEVEL"], PARAMS["MATH"]))


class ModelNew(nn.Module):
    def forward(self, points, others):
        out = torch.empty_like(points)
        _lib.forces(points.contiguous(), others.contiguous(), out, points.shape[0], others.shape[0])
        return out
