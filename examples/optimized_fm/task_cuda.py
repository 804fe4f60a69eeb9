"""The factorization machine x (xT y) of WuKong, fp16: x is B x N x D, y is B x N x K, in the
paper's production shapes."""

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
    "n24": {"n": 24, "k": 2198},
    "n40": {"n": 40, "k": 448},
    "n48": {"n": 48, "k": 448},
    "odd": {"batch": 7, "n": 31, "d": 100, "k": 333},
}
HELD_OUT = ["odd"]


def get_inputs(batch=1024, n=24, d=224, k=2198):
    return [(d**-0.5 * torch.randn(batch, n, d)).half(), torch.randn(batch, n, k).half()]


def get_init_inputs():
    return []
