"""A small task for the tests of the evaluator: rows scaled by a parameter, and shifted."""

import torch
import torch.nn as nn

CASES = {"small": {"rows": 16}, "odd": {"rows": 7}}
HELD_OUT = [{"rows": (1, 64)}]


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return torch.tanh(x) * self.weight + x.sum(dim=-1, keepdim=True)


def get_inputs(rows=16):
    return [torch.randn(rows, 96)]


def get_init_inputs():
    return [96]
