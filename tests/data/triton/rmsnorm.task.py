"""RMSNorm in half precision with a weight."""

import torch
import torch.nn as nn

CASES = {"rows": {"rows": 5}}


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width, dtype=torch.float16) + 0.5)

    def forward(self, x):
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return (x.float() * scale * self.weight.float()).half()


def get_inputs(rows=5):
    return [torch.randn(rows, 192).half()]


def get_init_inputs():
    return [192]
