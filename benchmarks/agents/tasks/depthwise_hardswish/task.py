"""A 3 x 3 convolution of each channel by itself, then hardswish: the middle of a block of a network
for phones. The framework's library is good at this one."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(0.3 * torch.randn(channels, 1, 3, 3))
        self.bias = nn.Parameter(0.1 * torch.randn(channels))

    def forward(self, x):
        y = F.conv2d(x, self.weight, self.bias, padding=1, groups=x.shape[1])
        return F.hardswish(y)


CASES = {
    "deep": {"channels": 192, "size": 14},
    "early": {"channels": 32, "size": 56},
}


def get_inputs(channels=32, size=56):
    return [torch.randn(1, channels, size, size)]


def get_init_inputs(channels=32):
    return [channels]
