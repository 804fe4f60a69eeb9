"""The factorization machine x (xT y), fp16, at sizes that a CPU judges in seconds; task_cuda.py has
the paper's."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """As the paper writes it: the product of D x K first."""

    def forward(self, x, y):
        return torch.bmm(x, torch.bmm(x.transpose(1, 2), y))


class Reassociated(nn.Module):
    """(x xT) y is the same by algebra: where K is larger than N, its intermediate is tiny and its
    arithmetic a fraction."""

    def forward(self, x, y):
        return torch.bmm(torch.bmm(x, x.transpose(1, 2)), y)


BASELINES = {
    "reassociated": Reassociated,
    "reassociated, compiled": lambda: torch.compile(Reassociated(), dynamic=False),
}

CASES = {
    "n24": {"batch": 2, "n": 24, "d": 40, "k": 150},
    "n40": {"batch": 2, "n": 40, "d": 48, "k": 64},
}


def get_inputs(batch=2, n=24, d=40, k=150):
    return [(d**-0.5 * torch.randn(batch, n, d)).half(), torch.randn(batch, n, k).half()]


def get_init_inputs():
    return []
