import torch
import torch.nn as nn

from harness.native import load_cpp

TUNABLES = {"UNROLL": [1, 2, 4]}
PARAMS = {"UNROLL": 1}

SOURCE = r"""
#include <cmath>
#include <cstdint>
extern "C" void rows(const float* x, const float* w, float* y, int64_t n, int64_t m) {
  for (int64_t i = 0; i < n; i++) {
    float s = 0;
    for (int64_t j = 0; j < m; j++) s += x[i * m + j];
    for (int64_t j = 0; j < m; j++) y[i * m + j] = std::tanh(x[i * m + j]) * w[j] + s;
  }
}
"""
_lib = load_cpp(SOURCE, defines={"UNROLL": PARAMS["UNROLL"]})


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        y = torch.empty_like(x)
        _lib.rows(x, self.weight, y, x.shape[0], x.shape[1])
        return y
