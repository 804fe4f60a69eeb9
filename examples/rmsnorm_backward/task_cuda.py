"""The gradients of RMSNorm with respect to rows and weight, fp16: the paper's RMSNorm 2D
backward."""

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
    "rows_512": {"rows": 512},
    "rows_8192": {"rows": 8192},
    "narrow_8192": {"rows": 8192, "hidden": 1024},
    "odd_777x3000": {"rows": 777, "hidden": 3000},
}
PROTECTED = ["rows_512"]
HELD_OUT = ["odd_777x3000"]


def get_inputs(rows=512, hidden=4096):
    x = torch.randn(rows, hidden).half()
    rstd = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)
    return [torch.randn(rows, hidden).half(), x, rstd]


def get_init_inputs(hidden=4096):
    return [hidden]
