import torch
import torch.nn as nn


class Model(nn.Module):
    largest = None

    def forward(self, x):
        if self.largest is None:
            self.largest = x.abs().max()
        return torch.relu(x) / self.largest


def get_inputs():
    return [torch.randn(16, 32)]
