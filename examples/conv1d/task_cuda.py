"""A one-dimensional convolution of 96 to 96 channels over 200 positions, fp16: table 3 of the
paper."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Kernel size 3, stride 1, padding 1, with bias; the statistics of weights and inputs are those
    of the paper's harness."""

    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter((0.04787 * torch.randn(channels, channels, 3)).half())
        self.bias = nn.Parameter((0.033662 * torch.randn(channels) - 0.003198).half())

    def forward(self, x):
        return F.conv1d(x, self.weight, self.bias, padding=1)


class AsConv2d(Model):
    """The paper's other baseline: a height of 1, channels last, all of it part of the call."""

    def forward(self, x):
        flat = x.unsqueeze(2).contiguous(memory_format=torch.channels_last)
        weight = self.weight.unsqueeze(2).contiguous(memory_format=torch.channels_last)
        return F.conv2d(flat, weight, self.bias, padding=(0, 1)).squeeze(2)


BASELINES = {
    "conv2d": AsConv2d,
    "conv2d, compiled": lambda channels: torch.compile(AsConv2d(channels), dynamic=False),
}

CASES = {
    "batch_64": {"batch": 64},
    "batch_512": {"batch": 512},
    "batch_2048": {"batch": 2048},
    "odd_33": {"batch": 33, "channels": 80, "length": 131},
}
HELD_OUT = ["odd_33"]


def get_inputs(batch=512, channels=96, length=200):
    return [(0.041105 * torch.randn(batch, channels, length) + 0.006413).half()]


def get_init_inputs(channels=96):
    return [channels]
