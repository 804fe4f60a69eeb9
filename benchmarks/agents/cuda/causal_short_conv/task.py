"""A causal convolution over the last four steps of each channel, then SiLU: what comes before the
scan of a state-space model."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter((0.4 * torch.randn(channels, 1, 4)).half())
        self.bias = nn.Parameter((0.1 * torch.randn(channels)).half())

    def forward(self, x):
        y = F.conv1d(F.pad(x, (3, 0)), self.weight, self.bias, groups=x.shape[1])
        return F.silu(y)


CASES = {
    "long": {"batch": 1, "channels": 2048, "steps": 8192},
    "batch": {"batch": 16, "channels": 1536, "steps": 512},
}


def get_inputs(batch=16, channels=1536, steps=512):
    return [torch.randn(batch, channels, steps).half()]


def get_init_inputs(channels=1536):
    return [channels]
