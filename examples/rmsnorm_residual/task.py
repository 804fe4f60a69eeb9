"""RMSNorm of x + residual, as every transformer block computes it: the normalised rows and the sum
for the next block."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, hidden, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(1.0 + 0.1 * torch.randn(hidden))
        self.eps = eps

    def forward(self, x, residual):
        total = x + residual
        scale = torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + self.eps)
        return total * scale * self.weight, total


CASES = {
    "decode_32": {"rows": 32},
    "prefill_512": {"rows": 512},
    "prefill_1024": {"rows": 1024},
    "odd_77": {"rows": 77},
    "one_1": {"rows": 1},
}
WEIGHTS = {"decode_32": 1.0, "prefill_512": 2.0, "prefill_1024": 1.0}
PROTECTED = ["decode_32"]
HELD_OUT = ["odd_77", "one_1"]


def get_inputs(rows=512):
    return [torch.randn(rows, 4096), torch.randn(rows, 4096)]


def get_init_inputs():
    return [4096]
