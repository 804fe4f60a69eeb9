"""The keys of sequences whose blocks lie anywhere in a cache, brought into one row each: what comes
before attention over a paged cache."""

import torch
import torch.nn as nn

BLOCK = 16


class Model(nn.Module):
    def forward(self, cache, table):
        return cache[table].flatten(1, 2)


CASES = {
    "few_long": {"sequences": 4, "blocks": 256},
    "many_short": {"sequences": 128, "blocks": 16},
}


def get_inputs(sequences=4, blocks=256, heads=8, width=128, kept=4096):
    cache = torch.randn(kept, BLOCK, heads, width).half()
    return [cache, torch.randint(0, kept, (sequences, blocks))]


def get_init_inputs():
    return []
