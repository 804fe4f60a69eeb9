import torch
import torch.nn as nn
import triton
import triton.language as tl

ROLES = {
    "logits": "matrix",
    "target": "row index",
    "ignore_index": "number",
    "reduction": "choice mean sum none",
    "dtype": "output dtype",
}
BINDING = {"reduction": "mean", "dtype": "float32"}
STRUCTURE = ["FORM"]
TUNABLES = {"FORM": ["running", "two_pass"], "CHUNK": [1024, 2048, 4096, 8192, 16384], "WARPS": [2, 4, 8, 16], "STAGES": [1, 2, 3]}
PARAMS = {"FORM": "running", "CHUNK": 4096, "WARPS": 8, "STAGES": 2}

# FORM    running: a row is read once; every lane keeps a maximum and a sum that is rescaled when the maximum grows.
#         two_pass: the maximum of the row first, then the sum: twice the reading, half the exponentials
# CHUNK   logits of one step


@triton.jit
def row_loss(logits, target, losses, classes, ignored, RUNNING: tl.constexpr, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, CHUNK)
    lowest = float("-inf")
    top = tl.full((CHUNK,), lowest, tl.float32)
    total = tl.zeros((CHUNK,), tl.float32)
    if RUNNING:
        for first in range(0, classes, CHUNK):
            value = tl.load(logits + row * classes + first + lane, mask=first + lane < classes, other=lowest).to(tl.float32)
            higher = tl.where((value > top) | (value != value), value, top)
            grown = total * tl.exp(top - higher) + tl.exp(value - higher)
            total = tl.where(higher == lowest, 0.0, grown)  # a lane that has seen nothing yet has nothing to rescale
            top = higher
        highest = tl.max(top, axis=0)
        summed = tl.sum(tl.where(top == lowest, 0.0, total * tl.exp(top - highest)), axis=0)
    else:
        for first in range(0, classes, CHUNK):
            value = tl.load(logits + row * classes + first + lane, mask=first + lane < classes, other=lowest).to(tl.float32)
            top = tl.maximum(top, value)
        highest = tl.max(top, axis=0)
        for first in range(0, classes, CHUNK):
            value = tl.load(logits + row * classes + first + lane, mask=first + lane < classes, other=lowest).to(tl.float32)
            total += tl.exp(value - highest)
        summed = tl.sum(total, axis=0)
    wanted = tl.load(target + row)
    valid = (wanted >= 0) & (wanted < classes)
    chosen = tl.load(logits + row * classes + tl.where(valid, wanted, 0)).to(tl.float32)
    loss = tl.where(valid, tl.log(summed) + highest - chosen, float("nan"))  # the framework raises for a class that is not there
    tl.store(losses + row, tl.where(wanted == ignored, 0.0, loss).to(losses.dtype.element_ty))


@triton.jit
def reduce(losses, target, result, rows, ignored, MEAN: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    counted = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, rows, BLOCK):
        inside = first + lane < rows
        total += tl.load(losses + first + lane, mask=inside, other=0.0)
        counted += tl.where(inside & (tl.load(target + first + lane, mask=inside, other=0) != ignored), 1.0, 0.0)
    found = tl.sum(total, axis=0)
    if MEAN:
        found /= tl.sum(counted, axis=0)
    tl.store(result, found.to(result.dtype.element_ty))


def run(logits, target, ignore_index=-100):
    logits, target = logits.contiguous(), target.contiguous()
    rows, classes = logits.shape
    kind = logits.dtype if BINDING["dtype"] == "input" else getattr(torch, BINDING["dtype"])
    each = BINDING["reduction"] == "none"
    losses = torch.empty(rows, dtype=kind if each else torch.float32, device=logits.device)
    chunk = min(PARAMS["CHUNK"], triton.next_power_of_2(max(classes, 1)))
    row_loss[(rows,)](
        logits, target, losses, classes, int(ignore_index), RUNNING=PARAMS["FORM"] == "running", CHUNK=chunk,
        num_warps=PARAMS["WARPS"], num_stages=PARAMS["STAGES"],
    )  # fmt: skip
    if each:
        return losses
    result = torch.empty((), dtype=kind, device=logits.device)
    reduce[(1,)](losses, target, result, rows, int(ignore_index), MEAN=BINDING["reduction"] == "mean", BLOCK=1024)
    return result
