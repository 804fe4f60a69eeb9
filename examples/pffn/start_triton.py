"""A plain starting kernel: a block of rows stays on the chip from the first product to the last
norm."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

TUNABLES = {
    "BLOCK_N": [16, 32, 64, 128],
    "BLOCK_K": [16, 32, 64],
    "WARPS": [2, 4, 8],
    "STAGES": [1, 2, 3],
}
PARAMS = {"BLOCK_N": 32, "BLOCK_K": 32, "WARPS": 4, "STAGES": 1}


@triton.jit
def block_of_rows(
    x,
    w1,
    bias,
    w2,
    inner,
    outer,
    y,
    n,
    d,
    eps,
    K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """The inner norm divides a row of the hidden layer by one number: that can wait until after the
    second product, which is therefore made of the hidden layer piece by piece."""
    sample = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    column = tl.arange(0, BLOCK_D)
    place = (sample * n + row[:, None]) * d + column[None, :]
    inside = (row < n)[:, None] & (column < d)[None, :]
    rows = tl.load(x + place, mask=inside, other=0.0)
    total = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    power = tl.zeros((BLOCK_N,), tl.float32)
    for first in range(0, K, BLOCK_K):
        piece = first + tl.arange(0, BLOCK_K)
        known = piece < K
        left = tl.load(
            w1 + (sample * d + column[:, None]) * K + piece[None, :],
            mask=(column < d)[:, None] & known[None, :],
            other=0.0,
        )
        hidden = tl.dot(rows, left, input_precision="ieee")
        hidden += tl.load(bias + sample * K + piece, mask=known, other=0.0).to(tl.float32)[None, :]
        hidden = 0.5 * hidden * (1.0 + tl.erf(hidden * 0.7071067811865476))
        power += tl.sum(hidden * hidden, axis=1)
        hidden *= tl.load(inner + piece, mask=known, other=0.0).to(tl.float32)[None, :]
        right = tl.load(
            w2 + (sample * K + piece[:, None]) * d + column[None, :],
            mask=known[:, None] & (column < d)[None, :],
            other=0.0,
        )
        total = tl.dot(hidden.to(right.dtype), right, total, input_precision="ieee")
    total *= (1.0 / tl.sqrt(power / K + eps))[:, None]
    total *= (1.0 / tl.sqrt(tl.sum(total * total, axis=1) / d + eps))[:, None]
    total *= tl.load(outer + column, mask=column < d, other=0.0).to(tl.float32)[None, :]
    tl.store(y + place, total.to(y.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, d, k, eps=1e-5):
        super().__init__()
        self.inner = nn.Parameter((1 + 0.1 * torch.randn(k)).half())
        self.outer = nn.Parameter((1 + 0.1 * torch.randn(d)).half())
        self.eps = eps

    def forward(self, x, w1, bias, w2):
        x, w1, bias, w2 = x.contiguous(), w1.contiguous(), bias.contiguous(), w2.contiguous()
        batch, n, d = x.shape
        y = torch.empty_like(x)
        block_of_rows[(batch, triton.cdiv(n, PARAMS["BLOCK_N"]))](
            x, w1, bias, w2, self.inner, self.outer, y, n, d, self.eps, K=w1.shape[2],
            BLOCK_N=PARAMS["BLOCK_N"], BLOCK_D=max(16, triton.next_power_of_2(d)),
            BLOCK_K=PARAMS["BLOCK_K"], num_warps=PARAMS["WARPS"], num_stages=PARAMS["STAGES"],
        )  # fmt: skip
        return y
