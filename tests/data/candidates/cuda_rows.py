import torch
import torch.nn as nn
from harness.native import load_cuda

TUNABLES = {"THREADS": [32, 64, 128]}
PARAMS = {"THREADS": 64}

SOURCE = r"""
#include <cstdint>

extern "C" __global__ void rows(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int64_t width) {
    extern __shared__ float partial[];
    const int64_t start = blockIdx.x * width;
    float sum = 0.0f;
    for (int64_t c = threadIdx.x; c < width; c += THREADS) sum += x[start + c];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
        __syncthreads();
    }
    const float total = partial[0];
    for (int64_t c = threadIdx.x; c < width; c += THREADS) y[start + c] = tanhf(x[start + c]) * w[c] + total;
}
"""
library = load_cuda(SOURCE, defines=PARAMS)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        y = torch.empty_like(x)
        threads = PARAMS["THREADS"]
        library.rows[x.shape[0], threads, 4 * threads](x, self.weight, y, x.shape[1])
        return y
