"""Bags of rows from a table, each row with a weight of its own, summed: the lookup of a
recommendation model."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, width))

    def forward(self, ids, weights):
        return (self.table[ids] * weights.unsqueeze(-1)).sum(1)


class Bagged(Model):
    """The framework's own operator."""

    def forward(self, ids, weights):
        return F.embedding_bag(ids, self.table, per_sample_weights=weights, mode="sum")


BASELINES = {"F.embedding_bag": Bagged}
CASES = {
    "narrow": {"bags": 256, "size": 32, "width": 32},
    "wide": {"bags": 512, "size": 20, "width": 128},
}


def get_inputs(bags=512, size=20, rows=4000):
    return [torch.randint(0, rows, (bags, size)), torch.rand(bags, size)]


def get_init_inputs(rows=4000, width=128):
    return [rows, width]
