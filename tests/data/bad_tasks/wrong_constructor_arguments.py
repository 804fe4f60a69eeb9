import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x):
        return x * self.scale


def get_inputs():
    return [torch.randn(64, 32)]


def get_init_inputs():
    return [32, "unexpected"]
