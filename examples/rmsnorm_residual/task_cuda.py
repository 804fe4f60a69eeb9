"""RMSNorm of x + residual at the sizes and in the dtypes of a GPU: fp16 and bf16, the square in
float32 as models do it."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, hidden, dtype, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter((1.0 + 0.1 * torch.randn(hidden)).to(getattr(torch, dtype)))
        self.eps = eps

    def forward(self, x, residual):
        total = x + residual
        wide = total.float()
        normal = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return normal.to(x.dtype) * self.weight, total


class Fused(Model):
    """The framework's own norm after the sum."""

    def forward(self, x, residual):
        total = x + residual
        return F.rms_norm(total, total.shape[-1:], self.weight, self.eps), total


BASELINES = {
    "F.rms_norm": Fused,
    "F.rms_norm, compiled": lambda *init: torch.compile(Fused(*init), dynamic=False),
}

CASES = {
    "decode_64": {"rows": 64, "dtype": "float16"},
    "prefill_2048": {"rows": 2048, "dtype": "bfloat16"},
    "prefill_8192": {"rows": 8192, "dtype": "float16"},
    "odd_77": {"rows": 77, "hidden": 3000, "dtype": "bfloat16"},
}
PROTECTED = ["decode_64"]
HELD_OUT = ["odd_77"]


def get_inputs(rows=2048, hidden=4096, dtype="float16"):
    kind = getattr(torch, dtype)
    return [torch.randn(rows, hidden).to(kind), torch.randn(rows, hidden).to(kind)]


def get_init_inputs(hidden=4096, dtype="float16"):
    return [hidden, dtype]
