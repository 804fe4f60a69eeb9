"""The gradients of RMSNorm, fp16, at sizes that a CPU judges in seconds; task_cuda.py has those of
a GPU."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """dx = rstd (w dy - x rstd^2 mean(w dy x)), dw = sum over rows of dy x rstd. rstd is what the
    forward pass kept."""

    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter((1 + 0.1 * torch.randn(hidden)).half())

    def forward(self, dy, x, rstd):
        normal = x.float() * rstd
        weighted = dy.float() * self.weight.float()
        dx = rstd * (weighted - normal * (weighted * normal).mean(-1, keepdim=True))
        return dx.to(x.dtype), (dy.float() * normal).sum(0).to(x.dtype)


class Fused(Model):
    """The framework's own fused kernel."""

    def forward(self, dy, x, rstd):
        return torch.ops.aten._fused_rms_norm_backward(
            dy, x, [x.shape[-1]], rstd, self.weight, [True, True]
        )


BASELINES = {"fused": Fused}

CASES = {
    "rows_40": {"rows": 40, "hidden": 256},
    "odd_33x500": {"rows": 33, "hidden": 500},
}


def get_inputs(rows=40, hidden=256):
    x = torch.randn(rows, hidden).half()
    rstd = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)
    return [torch.randn(rows, hidden).half(), x, rstd]


def get_init_inputs(hidden=256):
    return [hidden]
