"""A plain starting kernel: right, readable, and slow as it stands."""

import torch
import torch.nn as nn

from harness.native import load_cpp

TUNABLES = {"LEVEL": ["-O1", "-O2", "-O3"], "MATH": ["-fno-fast-math", "-fno-math-errno"]}
PARAMS = {"LEVEL": "-O1", "MATH": "-fno-fast-math"}

SOURCE = r"""
#include <cmath>
#include <cstdint>

static int64_t clamped(int64_t place, int64_t size) {
    return place < 0 ? 0 : place >= size ? size - 1 : place;
}

extern "C" void bilateral(const float* image, const float* near, float* out, int64_t images,
                          int64_t height, int64_t width) {
    for (int64_t n = 0; n < images; ++n)
        for (int64_t r = 0; r < height; ++r)
            for (int64_t c = 0; c < width; ++c) {
                const float* plane = image + n * height * width;
                const float own = plane[r * width + c];
                float sum = 0, total = 0;
                for (int64_t i = 0; i < 5; ++i)
                    for (int64_t j = 0; j < 5; ++j) {
                        const float value =
                            plane[clamped(r + i - 2, height) * width + clamped(c + j - 2, width)];
                        const float apart = value - own;
                        const float weight = near[i * 5 + j] * std::exp(-0.5f * apart * apart);
                        sum += weight * value;
                        total += weight;
                    }
                out[(n * height + r) * width + c] = sum / total;
            }
}
"""
_lib = load_cpp(SOURCE, flags=(PARAMS["LEVEL"], PARAMS["MATH"]))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("near", torch.zeros(5, 5))

    def forward(self, image):
        out = torch.empty_like(image)
        _lib.bilateral(image.contiguous(), self.near, out, *image.shape)
        return out
