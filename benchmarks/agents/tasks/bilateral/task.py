"""A bilateral filter: each pixel becomes the mean of its 5 x 5 neighbours, which count less the
further they are away in place and in value. Edges stay sharp."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        steps = torch.arange(-2.0, 3.0)
        place = steps.unsqueeze(0).pow(2) + steps.unsqueeze(1).pow(2)
        self.register_buffer("near", torch.exp(-place / 4.0))

    def forward(self, image):
        padded = F.pad(image, (2, 2, 2, 2), mode="replicate")
        windows = padded.unfold(1, 5, 1).unfold(2, 5, 1)
        apart = windows - image.unsqueeze(-1).unsqueeze(-1)
        weight = self.near * torch.exp(-0.5 * apart * apart)
        return (weight * windows).sum((-2, -1)) / weight.sum((-2, -1))


CASES = {"icon": {"images": 4, "size": 32}, "picture": {"images": 1, "size": 160}}


def get_inputs(images=1, size=160):
    return [torch.randn(images, size, size)]


def get_init_inputs():
    return []
