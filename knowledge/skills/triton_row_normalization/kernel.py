import torch
import torch.nn as nn
import triton
import triton.language as tl

ROLES = {
    "x": "rows",
    "residual": "rows?",
    "weight": "cols?",
    "bias": "cols?",
    "eps": "scalar",
    "centered": "choice 0 1",
    "returns": "choice normalized normalized,sum sum,normalized",
    "dtype": "output dtype",
}
BINDING = {"residual": 1, "weight": 1, "bias": 0, "centered": 0, "returns": "normalized,sum", "dtype": "input"}
STRUCTURE = ["CHUNK", "ROWS"]
TUNABLES = {"CHUNK": [0, 1024, 2048, 4096, 8192], "ROWS": [1, 2, 4, 8], "WARPS": [1, 2, 4, 8, 16], "STAGES": [1, 2, 3]}
PARAMS = {"CHUNK": 0, "ROWS": 1, "WARPS": 8, "STAGES": 2}

# CHUNK   0: a row stays in registers between statistics and result; else rows are read in pieces of so many columns, twice
# ROWS    rows of one program while they stay in registers: several where rows are narrow
WIDEST = 65536  # columns that may stay in registers; wider rows are read in pieces whatever CHUNK says


@triton.jit
def whole(x, residual, weight, bias, y, total, rows, cols, eps, RESIDUAL: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr,
          CENTERED: tl.constexpr, SUM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (column < cols)[None, :]
    place = row.to(tl.int64)[:, None] * cols + column[None, :]
    value = tl.load(x + place, mask=inside, other=0.0)
    if RESIDUAL:
        value += tl.load(residual + place, mask=inside, other=0.0)
    if SUM:
        tl.store(total + place, value, mask=inside)
    value = value.to(tl.float32)
    if CENTERED:
        value = tl.where(inside, value - (tl.sum(value, axis=1) / cols)[:, None], 0.0)
    value *= (1.0 / tl.sqrt(tl.sum(value * value, axis=1) / cols + eps))[:, None]
    if WEIGHT:
        value *= tl.load(weight + column, mask=column < cols, other=0.0).to(tl.float32)[None, :]
    if BIAS:
        value += tl.load(bias + column, mask=column < cols, other=0.0).to(tl.float32)[None, :]
    tl.store(y + place, value.to(y.dtype.element_ty), mask=inside)


@triton.jit
def in_pieces(x, residual, weight, bias, y, total, rows, cols, eps, RESIDUAL: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr,
              CENTERED: tl.constexpr, SUM: tl.constexpr, CHUNK: tl.constexpr):  # fmt: skip
    start = tl.program_id(0).to(tl.int64) * cols
    lane = tl.arange(0, CHUNK)
    mean = 0.0
    if CENTERED:
        part = tl.zeros((CHUNK,), tl.float32)
        for first in range(0, cols, CHUNK):
            inside = first + lane < cols
            value = tl.load(x + start + first + lane, mask=inside, other=0.0)
            if RESIDUAL:
                value += tl.load(residual + start + first + lane, mask=inside, other=0.0)
            part += value.to(tl.float32)
        mean = tl.sum(part, axis=0) / cols
    part = tl.zeros((CHUNK,), tl.float32)
    for first in range(0, cols, CHUNK):
        inside = first + lane < cols
        value = tl.load(x + start + first + lane, mask=inside, other=0.0)
        if RESIDUAL:
            value += tl.load(residual + start + first + lane, mask=inside, other=0.0)
        if SUM:
            tl.store(total + start + first + lane, value, mask=inside)
        distance = tl.where(inside, value.to(tl.float32) - mean, 0.0)
        part += distance * distance
    scale = 1.0 / tl.sqrt(tl.sum(part, axis=0) / cols + eps)
    for first in range(0, cols, CHUNK):
        column = first + lane
        inside = column < cols
        value = tl.load(x + start + column, mask=inside, other=0.0)
        if RESIDUAL:
            value += tl.load(residual + start + column, mask=inside, other=0.0)
        wide = (value.to(tl.float32) - mean) * scale
        if WEIGHT:
            wide *= tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
        if BIAS:
            wide += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(y + start + column, wide.to(y.dtype.element_ty), mask=inside)


def run(x, residual=None, weight=None, bias=None, eps=1e-6):
    x = x.contiguous()
    residual = None if residual is None else residual.expand_as(x).contiguous()
    weight = None if weight is None else weight.contiguous()
    bias = None if bias is None else bias.contiguous()
    kind = x.dtype if BINDING["dtype"] == "input" else getattr(torch, BINDING["dtype"])
    y = torch.empty(x.shape, dtype=kind, device=x.device)
    total = torch.empty_like(y) if "sum" in BINDING["returns"] else None
    cols = x.shape[-1]
    rows = x.numel() // cols if cols else 0
    what = {
        "RESIDUAL": residual is not None,
        "WEIGHT": weight is not None,
        "BIAS": bias is not None,
        "CENTERED": bool(BINDING["centered"]),
        "SUM": total is not None,
    }
    block, chunk, group = triton.next_power_of_2(max(cols, 1)), PARAMS["CHUNK"], PARAMS["ROWS"]
    arguments = (x, residual, weight, bias, y, total, rows, cols, float(eps))
    if rows and (chunk or block > WIDEST):
        chunk = min(chunk or 4096, block)
        in_pieces[(rows,)](*arguments, **what, CHUNK=chunk, num_warps=PARAMS["WARPS"], num_stages=PARAMS["STAGES"])
    elif rows:
        group = group if group * block <= WIDEST else 1
        whole[(triton.cdiv(rows, group),)](*arguments, **what, ROWS=group, BLOCK=block, num_warps=PARAMS["WARPS"])
    made = {"normalized": y, "sum": total}
    names = BINDING["returns"].split(",")
    return made[names[0]] if len(names) == 1 else tuple(made[n] for n in names)
