"""A recurrence along time: each step keeps a part of the state, by a gate of its own, and adds what
arrives. The core of gated linear models."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, arriving, gate):
        keep = torch.sigmoid(gate)
        state = torch.zeros_like(arriving[:, 0])
        states = []
        for step in range(arriving.shape[1]):
            state = keep[:, step] * state + arriving[:, step]
            states.append(state)
        return torch.stack(states, dim=1)


CASES = {
    "one": {"batch": 1, "channels": 512},
    "batch": {"batch": 16, "channels": 256},
}


def get_inputs(batch=16, steps=24, channels=256):
    return [torch.randn(batch, steps, channels), torch.randn(batch, steps, channels)]


def get_init_inputs():
    return []
