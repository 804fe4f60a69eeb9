"""A plain starting kernel: right, readable, and slow as it stands."""

import torch
import torch.nn as nn

from harness.native import load_cpp

TUNABLES = {"LEVEL": ["-O1", "-O2", "-O3"], "MATH": ["-fno-fast-math", "-fno-math-errno"]}
PARAMS = {"LEVEL": "-O1", "MATH": "-fno-fast-math"}

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" void gate(const float* scores, float* out, int64_t tokens, int64_t experts) {
    for (int64_t t = 0; t < tokens; ++t) {
        const float* row = scores + t * experts;
        float first = row[0] > row[1] ? row[0] : row[1], second = row[0] > row[1] ? row[1] : row[0];
        for (int64_t e = 2; e < experts; ++e) {
            if (row[e] > first) {
                second = first;
                first = row[e];
            } else if (row[e] > second) {
                second = row[e];
            }
        }
        float total = 0;
        for (int64_t e = 0; e < experts; ++e) {
            const float share = row[e] < second ? 0.0f : std::exp(row[e] - first);
            out[t * experts + e] = share;
            total += share;
        }
        for (int64_t e = 0; e < experts; ++e) out[t * experts + e] /= total;
    }
}
"""
_lib = load_cpp(SOURCE, flags=(PARAMS["LEVEL"], PARAMS["MATH"]))


class ModelNew(nn.Module):
    def forward(self, scores):
        out = torch.empty_like(scores)
        _lib.gate(scores.contiguous(), out, scores.shape[0], scores.shape[1])
        return out
