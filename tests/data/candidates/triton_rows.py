import torch
import torch.nn as nn
import triton
import triton.language as tl

TUNABLES = {"WARPS": [1, 2, 4]}
PARAMS = {"WARPS": 2}


@triton.jit
def rows(x, w, y, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(x + row * width + column, mask=inside, other=0.0)
    weight = tl.load(w + column, mask=inside, other=0.0)
    total = tl.sum(value, axis=0)
    hyperbolic = 2 / (1 + tl.exp(-2 * value)) - 1
    tl.store(y + row * width + column, hyperbolic * weight + total, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        y = torch.empty_like(x)
        rows[(x.shape[0],)](x, self.weight, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=PARAMS["WARPS"])
        return y
