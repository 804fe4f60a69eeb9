import torch


def get_inputs():
    return [torch.randn(64, 32)]


def get_init_inputs():
    return []
