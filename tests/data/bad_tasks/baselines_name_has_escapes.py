import torch
import torch.nn as nn

BASELINES = {"mine\x1b[31m": lambda: torch.exp}


class Model(nn.Module):
    def forward(self, x):
        return torch.exp(x)


def get_inputs(rows=16):
    return [torch.randn(rows, 32)]
