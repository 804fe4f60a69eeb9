import torch
import torch.nn as nn
from harness.native import load_cuda

TUNABLES = {"THREADS": [128, 256, 512]}
PARAMS = {"THREADS": 256}

SOURCE = r"""
#include <cuda_fp16.h>
#include <cstdint>

template <typename T>
__global__ void __launch_bounds__(THREADS) rmsnorm(const T* __restrict__ x, const T* __restrict__ w, T* __restrict__ y,
                                                   int64_t width, float eps) {
    __shared__ float partial[THREADS / 32];
    const T* row = x + blockIdx.x * width;
    float sum = 0.0f;
    for (int64_t c = threadIdx.x; c < width; c += THREADS) sum += (float)row[c] * (float)row[c];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0.0f;
    for (int i = 0; i < THREADS / 32; ++i) total += partial[i];
    const float scale = rsqrtf(total / width + eps);
    for (int64_t c = threadIdx.x; c < width; c += THREADS) y[blockIdx.x * width + c] = (T)((float)row[c] * scale * (float)w[c]);
}
"""
library = load_cuda(SOURCE, defines=PARAMS)
KERNELS = {torch.float32: library["rmsnorm<float>"], torch.float16: library["rmsnorm<__half>"]}


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.float16))

    def forward(self, x):
        y = torch.empty_like(x)
        KERNELS[x.dtype][x.shape[0], PARAMS["THREADS"]](x, self.weight, y, x.shape[1], 1e-6)
        return y
