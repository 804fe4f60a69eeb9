import a_package_that_nobody_has
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return a_package_that_nobody_has.transform(x)


def get_inputs():
    return [torch.randn(64, 32)]


def get_init_inputs():
    return []
