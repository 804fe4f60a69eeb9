import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        self.largest = x.abs().max()
        return torch.relu(x)


def get_inputs():
    return [torch.randn(16, 32)]
