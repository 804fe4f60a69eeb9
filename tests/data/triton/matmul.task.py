"""A product of half-precision matrices."""

import torch
import torch.nn as nn

CASES = {"square": {"m": 64}, "ragged": {"m": 50}}


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs(m=64):
    return [torch.randn(m, 96).half(), torch.randn(96, 64).half()]


def get_init_inputs():
    return []
