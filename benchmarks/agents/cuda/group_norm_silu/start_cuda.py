"""A plain starting kernel: a thread for each element, right and slow."""

import torch
import torch.nn as nn

from harness.native import load_cuda

TUNABLES = {"THREADS": [64, 128, 256, 512]}
PARAMS = {"THREADS": 256}

SOURCE = r"""
#include <cuda_fp16.h>
#include <cstdint>

extern "C" __global__ void moments(const __half* x, float* moments, int64_t count) {
    __shared__ float sums[2][1024];
    float sum = 0, squares = 0;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
        const float value = __half2float(x[blockIdx.x * count + i]);
        sum += value;
        squares += value * value;
    }
    sums[0][threadIdx.x] = sum;
    sums[1][threadIdx.x] = squares;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            for (int k = 0; k < 2; ++k) sums[k][threadIdx.x] += sums[k][threadIdx.x + half];
    }
    if (threadIdx.x) return;
    const float mean = sums[0][0] / count;
    moments[2 * blockIdx.x] = mean;
    moments[2 * blockIdx.x + 1] = rsqrtf(sums[1][0] / count - mean * mean + 1e-5f);
}

extern "C" __global__ void applied(const __half* x, const float* moments, const __half* weight,
                                   const __half* bias, __half* y, int64_t count, int64_t pixels,
                                   int64_t channels) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i >= count) return;
    const int64_t plane = i / pixels, channel = plane % channels, group = plane / (channels / 32);
    const float normal = (__half2float(x[i]) - moments[2 * group]) * moments[2 * group + 1];
    const float value = normal * __half2float(weight[channel]) + __half2float(bias[channel]);
    y[i] = __float2half(value / (1.0f + __expf(-value)));
}
"""
_lib = load_cuda(SOURCE)


def _grid(count):
    return -(-count // PARAMS["THREADS"])


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels).half())
        self.bias = nn.Parameter(torch.zeros(channels).half())

    def forward(self, x):
        batch, channels, height, width = x.shape
        x, y = x.contiguous(), torch.empty_like(x)
        moments = torch.empty(batch * 32, 2, device=x.device)
        count, pixels, threads = x.numel(), height * width, PARAMS["THREADS"]
        _lib.moments[batch * 32, threads](x, moments, count // (batch * 32))
        arguments = (x, moments, self.weight, self.bias, y, count, pixels, channels)
        _lib.applied[_grid(count), threads](*arguments)
        return y
