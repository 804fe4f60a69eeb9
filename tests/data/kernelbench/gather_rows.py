import torch
import torch.nn as nn


class Model(nn.Module):
    """Looks up table rows and sums them per bag, weighted."""

    def __init__(self, entries, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(entries, width))

    def forward(self, indices, weights):
        return (self.table[indices] * weights.unsqueeze(-1)).sum(dim=1)


entries = 500
width = 48
bags = 64
per_bag = 7


def get_inputs():
    return [torch.randint(0, entries, (bags, per_bag)), torch.rand(bags, per_bag)]


def get_init_inputs():
    return [entries, width]
