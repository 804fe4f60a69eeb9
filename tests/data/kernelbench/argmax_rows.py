import torch
import torch.nn as nn


class Model(nn.Module):
    """Position of the largest element of each row: integers out."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.argmax(x, dim=self.dim)


rows = 200
columns = 90


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return [1]
