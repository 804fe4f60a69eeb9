import torch


def reference(x):
    return x.sin().masked_fill(torch.ones(32, 32).triu(1).bool(), -torch.inf)


def get_inputs():
    return [torch.randn(64, 32, 32)]
