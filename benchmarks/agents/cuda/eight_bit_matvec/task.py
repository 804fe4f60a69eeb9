"""A matrix of eight-bit weights with a scale for each row, times a few vectors: what a quantized
model does for each token."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (rows, width), dtype=torch.int8))
        self.scale = nn.Parameter((torch.rand(rows) / (64.0 * width**0.5)).half())

    def forward(self, x):
        return (x @ self.weight.to(x.dtype).t()) * self.scale


CASES = {
    "one": {"tokens": 1, "rows": 4096, "width": 4096},
    "four": {"tokens": 4, "rows": 11008, "width": 4096},
}


def get_inputs(tokens=4, width=4096):
    return [torch.randn(tokens, width).half()]


def get_init_inputs(rows=11008, width=4096):
    return [rows, width]
