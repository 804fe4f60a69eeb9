import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.full((x.shape[0],), 3.5)


def get_inputs():
    return [torch.randn(64, 32)]


def get_init_inputs():
    return []
