import torch
import torch.nn as nn


class Model(nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return torch.relu(x)


def get_inputs():
    return [torch.randn(16, 32)]
