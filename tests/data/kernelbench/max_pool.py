import torch
import torch.nn as nn


class Model(nn.Module):
    """Two-dimensional maximum over overlapping windows."""

    def __init__(self, window, stride):
        super().__init__()
        self.pool = nn.MaxPool2d(window, stride=stride)

    def forward(self, x):
        return self.pool(x)


batch = 2
channels = 6
side = 33
window = 3
stride = 2


def get_inputs():
    return [torch.randn(batch, channels, side, side)]


def get_init_inputs():
    return [window, stride]
