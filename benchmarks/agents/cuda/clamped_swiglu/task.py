"""The gated activation of a large model, its two halves clamped, as some open models have it."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, both):
        gate, up = both.chunk(2, dim=-1)
        gate, up = gate.clamp(max=7.0), up.clamp(-7.0, 7.0)
        return gate * torch.sigmoid(1.702 * gate) * (up + 1.0)


CASES = {"decode": {"tokens": 64}, "prefill": {"tokens": 4096}}
WEIGHTS = {"prefill": 2.0}


def get_inputs(tokens=4096, width=2880):
    return [3.0 * torch.randn(tokens, 2 * width).half()]


def get_init_inputs():
    return []
