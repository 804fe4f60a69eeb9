"""A plain starting kernel: a branchless binary search for each id, as many steps as the table
needs."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

TUNABLES = {"BLOCK": [64, 128, 256, 512, 1024], "WARPS": [1, 2, 4, 8]}
PARAMS = {"BLOCK": 512, "WARPS": 4}


@triton.jit
def map_ids(ids, table, out, count, size, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    wanted = tl.load(ids + at, mask=inside, other=0)
    low = tl.zeros((BLOCK,), tl.int32)
    high = low + size
    for _ in tl.static_range(STEPS):
        middle = (low + high) // 2
        open_ = low < high
        below = open_ & (tl.load(table + middle, mask=open_, other=0) < wanted)
        low = tl.where(below, middle + 1, low)
        high = tl.where(open_ & (below == 0), middle, high)
    found = tl.load(table + tl.minimum(low, size - 1)) == wanted
    tl.store(out + at, tl.where(found, low.to(tl.int64) + 1, tl.zeros_like(wanted)), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        generator = torch.Generator().manual_seed(7)
        steps = torch.randint(1, 5, (size,), generator=generator, dtype=torch.int64)
        self.register_buffer("table", torch.cumsum(steps, 0))

    def forward(self, ids):
        ids = ids.contiguous()
        out = torch.empty_like(ids)
        size, block = self.table.numel(), PARAMS["BLOCK"]
        grid = (triton.cdiv(ids.numel(), block),)
        map_ids[grid](
            ids,
            self.table,
            out,
            ids.numel(),
            size,
            STEPS=size.bit_length(),
            BLOCK=block,
            num_warps=PARAMS["WARPS"],
        )
        return out
