"""A matrix of four-bit weights times a vector: two weights in a byte, a scale for each group of 64
along a row. What generating text with a small model mostly does."""

import torch
import torch.nn as nn

GROUP = 64


class Model(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        packed = torch.randint(0, 256, (rows, width // 2), dtype=torch.uint8)
        self.register_buffer("packed", packed)
        self.scale = nn.Parameter(torch.rand(rows, width // GROUP) / width**0.5)

    def forward(self, x):
        both = torch.stack((self.packed & 15, self.packed >> 4), dim=-1)
        weight = both.view(*self.scale.shape, GROUP).float() - 8.0
        return (weight * self.scale.unsqueeze(-1)).flatten(1) @ x


CASES = {"square": {"rows": 512, "width": 512}, "tall": {"rows": 2048, "width": 768}}


def get_inputs(width=768):
    return [torch.randn(width)]


def get_init_inputs(rows=2048, width=768):
    return [rows, width]
