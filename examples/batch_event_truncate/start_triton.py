"""A plain starting kernel: one program finds where every piece goes, then each (feature, user)
copies what stays of it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

TUNABLES = {"BLOCK": [128, 256, 512, 1024], "WARPS": [1, 2, 4, 8], "SCAN_WARPS": [1, 4, 8]}
PARAMS = {"BLOCK": 256, "WARPS": 4, "SCAN_WARPS": 4}


@triton.jit
def place(
    event_offsets,
    value_offsets,
    new_events,
    goals,
    users,
    pieces,
    every,
    KEEP: tl.constexpr,
    USERS: tl.constexpr,
    PIECES: tl.constexpr,
):
    """new_events [users + 1]; goals [pieces]: where the values of a (feature, user) go. What stays
    of one is one piece of memory."""
    user = tl.arange(0, USERS)
    start = tl.load(event_offsets + user, mask=user < users, other=0)
    kept = tl.load(event_offsets + user + 1, mask=user < users, other=0) - start
    kept = tl.where(kept > KEEP, KEEP, kept)
    tl.store(new_events + user + 1, tl.cumsum(kept, axis=0), mask=user < users)
    tl.store(new_events + user, tl.zeros_like(kept), mask=user < 1)
    piece = tl.arange(0, PIECES)
    known = piece < pieces
    start = tl.load(event_offsets + piece % users, mask=known, other=0)
    kept = tl.load(event_offsets + piece % users + 1, mask=known, other=0) - start
    kept = tl.where(kept > KEEP, KEEP, kept)
    base = value_offsets + (piece // users) * every + start
    length = tl.load(base + kept, mask=known, other=0) - tl.load(base, mask=known, other=0)
    tl.store(goals + piece, tl.cumsum(length, axis=0) - length, mask=known)


@triton.jit
def copy(
    values,
    event_offsets,
    value_offsets,
    new_events,
    goals,
    kept_values,
    kept_offsets,
    users,
    every,
    kept_every,
    BLOCK: tl.constexpr,
):
    user, feature = tl.program_id(0), tl.program_id(1)
    goal = tl.load(goals + feature * users + user)
    first = tl.load(new_events + user)
    kept = tl.load(new_events + user + 1) - first
    source = value_offsets + feature * every + tl.load(event_offsets + user)
    begin = tl.load(source)
    length = tl.load(source + kept) - begin
    lane = tl.arange(0, BLOCK)
    for i in range(0, kept, BLOCK):
        inside = i + lane < kept
        end = tl.load(source + 1 + i + lane, mask=inside)
        tl.store(
            kept_offsets + feature * kept_every + first + 1 + i + lane,
            end - begin + goal,
            mask=inside,
        )
    for i in range(0, length, BLOCK):
        inside = i + lane < length
        tl.store(
            kept_values + goal + i + lane,
            tl.load(values + begin + i + lane, mask=inside),
            mask=inside,
        )
    if user + feature == 0:
        tl.store(kept_offsets, begin)


class ModelNew(nn.Module):
    def __init__(self, features, keep, kept_events, kept_values):
        super().__init__()
        self.features, self.keep, self.kept_events, self.kept_values = (
            features,
            keep,
            kept_events,
            kept_values,
        )

    def forward(self, values, event_offsets, value_offsets):
        users, device = event_offsets.numel() - 1, values.device
        every, pieces = (value_offsets.numel() - 1) // self.features, self.features * users
        new_events = torch.empty_like(event_offsets)
        goals = torch.empty(pieces, dtype=torch.int64, device=device)
        kept_values = torch.empty(self.kept_values, dtype=values.dtype, device=device)
        kept_offsets = torch.empty(
            self.features * self.kept_events + 1, dtype=torch.int64, device=device
        )
        place[(1,)](
            event_offsets, value_offsets, new_events, goals, users, pieces, every, KEEP=self.keep,
            USERS=triton.next_power_of_2(users), PIECES=triton.next_power_of_2(pieces),
            num_warps=PARAMS["SCAN_WARPS"],
        )  # fmt: skip
        copy[(users, self.features)](
            values, event_offsets, value_offsets, new_events, goals, kept_values, kept_offsets,
            users, every, self.kept_events, BLOCK=PARAMS["BLOCK"], num_warps=PARAMS["WARPS"],
        )  # fmt: skip
        return kept_values, new_events, kept_offsets
