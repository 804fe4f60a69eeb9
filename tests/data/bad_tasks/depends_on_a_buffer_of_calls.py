import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("largest", torch.ones(()))

    def forward(self, x):
        self.largest.copy_(torch.maximum(self.largest, x.abs().max()))
        return torch.relu(x) / self.largest


def get_inputs():
    return [torch.randn(16, 32)]
