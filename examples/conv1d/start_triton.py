"""A plain starting kernel: the weight is laid out by tap, then an implicit product of matrices over
channels and taps."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

TUNABLES = {
    "BLOCK_OUT": [32, 64, 128],
    "BLOCK_AT": [64, 128, 256],
    "BLOCK_IN": [16, 32, 64],
    "WARPS": [2, 4, 8],
    "STAGES": [1, 2, 3, 4],
}
PARAMS = {"BLOCK_OUT": 128, "BLOCK_AT": 128, "BLOCK_IN": 32, "WARPS": 8, "STAGES": 3}


@triton.jit
def pack(weight, packed, pairs, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """[out, in, tap] becomes [tap, out, in], so that a tile of a tap is contiguous."""
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pair < pairs
    for tap in tl.static_range(TAPS):
        tl.store(
            packed + tap * pairs + pair,
            tl.load(weight + pair * TAPS + tap, mask=inside),
            mask=inside,
        )


@triton.jit
def convolve(x, packed, bias, y, positions, length, IN: tl.constexpr, OUT: tl.constexpr,
             TAPS: tl.constexpr,
             BLOCK_OUT: tl.constexpr, BLOCK_AT: tl.constexpr, BLOCK_IN: tl.constexpr):  # fmt: skip
    """One tile of output channels x positions; positions are counted through the batch, so that no
    tile is cut at its end."""
    position = tl.program_id(0) * BLOCK_AT + tl.arange(0, BLOCK_AT)
    inside = position < positions
    sample = (position // length).to(tl.int64)
    at = position % length
    out = tl.program_id(1) * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    total = tl.zeros((BLOCK_OUT, BLOCK_AT), tl.float32)
    for tap in tl.static_range(TAPS):
        shifted = at + tap - TAPS // 2
        readable = inside & (shifted >= 0) & (shifted < length)
        source = x + sample * IN * length + shifted
        for first in range(0, IN, BLOCK_IN):
            channel = first + tl.arange(0, BLOCK_IN)
            w = tl.load(
                packed + (tap * OUT + out[:, None]) * IN + channel[None, :],
                mask=(out < OUT)[:, None] & (channel < IN)[None, :],
                other=0.0,
            )
            v = tl.load(
                source[None, :] + channel[:, None] * length,
                mask=readable[None, :] & (channel < IN)[:, None],
                other=0.0,
            )
            total = tl.dot(w, v, total, input_precision="ieee")
    total += tl.load(bias + out, mask=out < OUT, other=0.0).to(tl.float32)[:, None]
    target = y + sample[None, :] * OUT * length + out[:, None] * length + at[None, :]
    tl.store(target, total.to(y.dtype.element_ty), mask=inside[None, :] & (out < OUT)[:, None])


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter((0.04787 * torch.randn(channels, channels, 3)).half())
        self.bias = nn.Parameter((0.033662 * torch.randn(channels) - 0.003198).half())

    def forward(self, x):
        x = x.contiguous()
        batch, channels, length = x.shape
        out, _, taps = self.weight.shape
        packed = torch.empty((taps, out, channels), dtype=self.weight.dtype, device=x.device)
        pack[(triton.cdiv(out * channels, 1024),)](
            self.weight, packed, out * channels, TAPS=taps, BLOCK=1024
        )
        y = torch.empty((batch, out, length), dtype=x.dtype, device=x.device)
        blocks = {name: PARAMS[name] for name in ("BLOCK_OUT", "BLOCK_AT", "BLOCK_IN")}
        grid = (
            triton.cdiv(batch * length, blocks["BLOCK_AT"]),
            triton.cdiv(out, blocks["BLOCK_OUT"]),
        )
        convolve[grid](
            x, packed, self.bias, y, batch * length, length, IN=channels, OUT=out, TAPS=taps,
            **blocks, num_warps=PARAMS["WARPS"], num_stages=PARAMS["STAGES"],
        )  # fmt: skip
        return y
