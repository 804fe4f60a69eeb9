"""A plain starting kernel: a thread for each element, right and slow."""

import torch
import torch.nn as nn

from harness.native import load_cuda

TUNABLES = {"THREADS": [64, 128, 256, 512]}
PARAMS = {"THREADS": 256}

SOURCE = r"""
#include <cuda_fp16.h>
#include <cstdint>

extern "C" __global__ void convolve(const __half* x, const __half* weight, const __half* bias,
                                    __half* y, int64_t count, int64_t channels, int64_t steps) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i >= count) return;
    const int64_t channel = i / steps % channels, step = i % steps;
    float sum = __half2float(bias[channel]);
    for (int64_t k = 0; k < 4; ++k)
        if (step + k >= 3)
            sum += __half2float(weight[channel * 4 + k]) * __half2float(x[i + k - 3]);
    y[i] = __float2half(sum / (1.0f + __expf(-sum)));
}
"""
_lib = load_cuda(SOURCE)


def _grid(count):
    return -(-count // PARAMS["THREADS"])


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(channels, 1, 4).half())
        self.bias = nn.Parameter(torch.zeros(channels).half())

    def forward(self, x):
        _, channels, steps = x.shape
        x, y = x.contiguous(), torch.empty_like(x)
        arguments = (x, self.weight, self.bias, y, x.numel(), channels, steps)
        _lib.convolve[_grid(x.numel()), PARAMS["THREADS"]](*arguments)
        return y
