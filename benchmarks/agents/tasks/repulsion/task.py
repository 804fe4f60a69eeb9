"""Forces between points in a plane that repel each other, as drawing a large graph computes them:
of every point the sum over all others of their difference over the squared distance, squared."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, points, others):
        apart = points.unsqueeze(1) - others.unsqueeze(0)
        weight = 1.0 / (1.0 + apart.pow(2).sum(-1, keepdim=True))
        return (apart * weight * weight).sum(1)


CASES = {"few": {"points": 200, "others": 300}, "many": {"points": 900, "others": 1000}}


def get_inputs(points=900, others=1000):
    return [torch.randn(points, 2), torch.randn(others, 2)]


def get_init_inputs():
    return []
