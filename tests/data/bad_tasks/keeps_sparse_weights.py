import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.eye(64).to_sparse())

    def forward(self, x):
        return torch.relu(torch.sparse.mm(self.edges, x.t()).t())


def get_inputs():
    return [torch.randn(8, 64)]
