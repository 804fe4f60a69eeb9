import torch
import torch.nn as nn

print("loading" + "." * 1_000_000)


class Model(nn.Module):
    def forward(self, x):
        print("forward" + "." * 10_000)
        return torch.exp(x)


def get_inputs():
    print('{"id": 1, "ok": true}')  # looks like a line of a protocol
    return [torch.randn(64, 32)]


def get_init_inputs():
    return []
