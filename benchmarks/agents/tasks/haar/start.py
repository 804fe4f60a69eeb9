"""A plain starting kernel: right, readable, and slow as it stands."""

import torch
import torch.nn as nn

from harness.native import load_cpp

TUNABLES = {"LEVEL": ["-O1", "-O2", "-O3"], "MATH": ["-fno-fast-math", "-fno-math-errno"]}
PARAMS = {"LEVEL": "-O1", "MATH": "-fno-fast-math"}

SOURCE = r"""
#include <cstdint>

extern "C" void haar(const float* image, float* out, int64_t images, int64_t size) {
    const int64_t half = size / 2;
    for (int64_t n = 0; n < images; ++n)
        for (int64_t plane = 0; plane < 4; ++plane)
            for (int64_t r = 0; r < half; ++r)
                for (int64_t k = 0; k < half; ++k) {
                    const float* top = image + (n * size + 2 * r) * size + 2 * k;
                    const float b = plane % 2 ? -top[1] : top[1];
                    const float c = plane / 2 ? -top[size] : top[size];
                    const float d = (plane % 2) ^ (plane / 2) ? -top[size + 1] : top[size + 1];
                    out[((n * 4 + plane) * half + r) * half + k] = 0.5f * (top[0] + b + c + d);
                }
}
"""
_lib = load_cpp(SOURCE, flags=(PARAMS["LEVEL"], PARAMS["MATH"]))


class ModelNew(nn.Module):
    def forward(self, image):
        images, size, _ = image.shape
        out = torch.empty(images, 4, size // 2, size // 2)
        _lib.haar(image.contiguous(), out, images, size)
        return out
