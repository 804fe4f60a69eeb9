import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(0, 32))

    def forward(self, x):
        self.seen = torch.cat([self.seen, x])
        return torch.relu(x)


def get_inputs():
    return [torch.randn(16, 32)]
