"""A plain starting kernel: one program a row, which it reads once."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

TUNABLES = {"WARPS": [1, 2, 4, 8, 16], "STAGES": [1, 2, 3]}
PARAMS = {"WARPS": 8, "STAGES": 1}


@triton.jit
def row_norm(x, residual, weight, y, total, cols, eps, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    inside = column < cols
    place = tl.program_id(0).to(tl.int64) * cols + column
    value = tl.load(x + place, mask=inside, other=0.0) + tl.load(
        residual + place, mask=inside, other=0.0
    )
    tl.store(total + place, value, mask=inside)
    wide = value.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(wide * wide, axis=0) / cols + eps)
    w = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + place, (wide * scale * w).to(y.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, hidden, dtype="float32", eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter((1.0 + 0.1 * torch.randn(hidden)).to(getattr(torch, dtype)))
        self.eps = eps

    def forward(self, x, residual):
        x, residual = x.contiguous(), residual.contiguous()
        y, total = torch.empty_like(x), torch.empty_like(x)
        cols = x.shape[-1]
        row_norm[(x.numel() // cols,)](
            x, residual, self.weight, y, total, cols, self.eps, BLOCK=triton.next_power_of_2(cols),
            num_warps=PARAMS["WARPS"], num_stages=PARAMS["STAGES"],
        )  # fmt: skip
        return y, total
