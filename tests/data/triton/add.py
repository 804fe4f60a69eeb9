"""Written for a GPU: the device is named, asked about and waited for."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

PARAMS = {"BLOCK": 512}


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, y):
        assert x.is_cuda and x.device.type == "cuda"
        assert torch.cuda.is_available() and torch.cuda.get_device_properties(0).multi_processor_count > 0
        x, y = x.cuda(), y.to("cuda", non_blocking=True)
        with torch.cuda.device(x.device):
            out = torch.empty(x.shape, dtype=x.dtype, device="cuda")
            add[(triton.cdiv(x.numel(), PARAMS["BLOCK"]),)](x, y, out, x.numel(), BLOCK=PARAMS["BLOCK"])
        torch.cuda.synchronize()
        return out
