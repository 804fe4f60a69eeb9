import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.exp()


def get_inputs():
    return [torch.randn(int(torch.randint(1, 64, (1,))), 32)]


def get_init_inputs():
    return []
