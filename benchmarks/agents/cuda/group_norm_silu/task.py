"""Group normalization and SiLU, as every block of an image model begins."""

import torch
import torch.nn as nn
import torch.nn.functional as F

GROUPS = 32


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter((1.0 + 0.1 * torch.randn(channels)).half())
        self.bias = nn.Parameter((0.1 * torch.randn(channels)).half())

    def forward(self, x):
        return F.silu(F.group_norm(x, GROUPS, self.weight, self.bias, 1e-5))


CASES = {
    "early": {"batch": 4, "channels": 320, "size": 64},
    "deep": {"batch": 4, "channels": 1280, "size": 16},
}


def get_inputs(batch=4, channels=320, size=64):
    return [torch.randn(batch, channels, size, size).half()]


def get_init_inputs(channels=320):
    return [channels]
