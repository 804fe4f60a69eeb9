import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rmsnorm(x, weight, out, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * width + i, mask=i < width, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v, axis=0) / width + eps)
    w = tl.load(weight + i, mask=i < width, other=0.0).to(tl.float32)
    tl.store(out + row * width + i, (v * scale * w).to(tl.float16), mask=i < width)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.float16))

    def forward(self, x):
        out = torch.empty_like(x)
        rmsnorm[(x.shape[0],)](x, self.weight, out, x.shape[1], 1e-6, BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
