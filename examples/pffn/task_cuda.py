"""The personalised feed-forward block of InterFormer, fp16, in the paper's shapes: every sample has
matrices of its own."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """BMM + bias, GELU, RMSNorm, BMM, RMSNorm. The matrices are those of a sample: w1 is B x D x K,
    w2 is B x K x D."""

    def __init__(self, d, k, eps=1e-5):
        super().__init__()
        self.inner = nn.Parameter((1 + 0.1 * torch.randn(k)).half())
        self.outer = nn.Parameter((1 + 0.1 * torch.randn(d)).half())
        self.eps = eps

    def forward(self, x, w1, bias, w2):
        hidden = F.gelu(torch.baddbmm(bias, x, w1))
        hidden = F.rms_norm(hidden, hidden.shape[-1:], self.inner, self.eps)
        out = torch.bmm(hidden, w2)
        return F.rms_norm(out, out.shape[-1:], self.outer, self.eps)


CASES = {
    "batch_128": {"batch": 128},
    "batch_1024": {"batch": 1024},
    "narrow_1024": {"batch": 1024, "n": 150, "d": 96, "k": 192},
    "odd": {"batch": 5, "n": 77, "d": 100, "k": 52},
}
HELD_OUT = ["odd"]


def get_inputs(batch=128, n=200, d=256, k=160):
    return [
        torch.randn(batch, n, d).half(),
        (d**-0.5 * torch.randn(batch, d, k)).half(),
        (0.1 * torch.randn(batch, 1, k)).half(),
        (k**-0.5 * torch.randn(batch, k, d)).half(),
    ]


def get_init_inputs(d=256, k=160):
    return [d, k]
