import torch
import torch.nn as nn


class Model(nn.Module):
    """Layer normalization with learned scale and shift."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.uniform_(self.norm.bias, -0.5, 0.5)

    def forward(self, x):
        return self.norm(x)


batch = 8
length = 16
width = 192


def get_inputs():
    return [torch.randn(batch, length, width)]


def get_init_inputs():
    return [width]
