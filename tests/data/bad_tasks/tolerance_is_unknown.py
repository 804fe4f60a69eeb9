import torch
import torch.nn as nn

TOLERANCE = 1e-3


class Model(nn.Module):
    def forward(self, x):
        return torch.exp(x)


def get_inputs(rows=16):
    return [torch.randn(rows, 32)]
