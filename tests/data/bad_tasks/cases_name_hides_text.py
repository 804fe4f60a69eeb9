import torch
import torch.nn as nn

CASES = {"small": {"rows": 16}, "large\U000e0149\U000e0147": {"rows": 64}}


class Model(nn.Module):
    def forward(self, x):
        return torch.exp(x)


def get_inputs(rows=16):
    return [torch.randn(rows, 32)]
