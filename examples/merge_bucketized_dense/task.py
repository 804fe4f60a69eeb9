"""MergeBucketizedDense: dense features become bucket ids by borders of their own, numbered through
over all features."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """Feature by feature, as the paper's reference does. A value equal to a border belongs to the
    bucket below it."""

    def __init__(self, features, most):
        super().__init__()
        generator = torch.Generator().manual_seed(11)
        counts = torch.randint(1, most + 1, (features,), generator=generator)
        counts[-1] = most
        borders = torch.full((features, most), float("inf"))
        for row, count in zip(borders, counts.tolist(), strict=True):
            row[:count] = torch.randn(count, generator=generator).sort().values
        first = torch.cumsum(counts + 1, 0) - (counts + 1)
        # constants, filled up with infinity
        self.register_buffer("borders", borders, persistent=False)
        self.register_buffer("first", first, persistent=False)

    def forward(self, x):
        columns = [
            torch.bucketize(x[:, f].contiguous(), self.borders[f]) for f in range(x.shape[1])
        ]
        return torch.stack(columns, 1) + self.first


class Counted(Model):
    """All features at once: the bucket is the number of borders below the value."""

    def forward(self, x):
        return (x.unsqueeze(-1) > self.borders).sum(-1) + self.first


BASELINES = {
    "counted": Counted,
    "counted, compiled": lambda *init: torch.compile(Counted(*init), dynamic=False),
}

CASES = {
    "64x2x2": {"rows": 64, "features": 2, "most": 2},
    "2048x2x4": {"rows": 2048, "features": 2, "most": 4},
    "2048x64x8": {"rows": 2048, "features": 64, "most": 8},
    "odd_777x13x10": {"rows": 777, "features": 13, "most": 10},
}
HELD_OUT = ["odd_777x13x10"]


def get_inputs(rows=2048, features=64):
    return [torch.randn(rows, features)]


def get_init_inputs(features=64, most=8):
    return [features, most]
