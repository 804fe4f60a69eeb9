"""A plain starting kernel: a textbook binary search for each id."""

import torch
import torch.nn as nn

from harness.native import load_cpp

STRUCTURE = ["SEARCH"]
TUNABLES = {
    "LEVEL": ["-O1", "-O2", "-O3"],
    "SEARCH": ["branching", "branchless", "interleaved"],
    "LANES": [4, 8, 16, 32],
    "WIDTH": [256, 512],
}
PARAMS = {"LEVEL": "-O1", "SEARCH": "branching", "LANES": 8, "WIDTH": 256}

SOURCE = r"""
// SEARCH 0: the textbook loop, one unpredictable branch a step. 1: the step length is halved and the
// base moved by a conditional move. 2: LANES searches of the second kind advance together, so that
// their loads overlap (or become gathers).
#include <cstdint>

static inline int64_t answer(const int64_t* table, int64_t size, int64_t position, int64_t id) {
    position = position < size ? position : size - 1;
    return table[position] == id ? position + 1 : 0;
}

extern "C" void map_ids(const int64_t* __restrict ids, const int64_t* __restrict table,
                        int64_t* __restrict out, int64_t count, int64_t size) {
    int64_t i = 0;
#if SEARCH == 2
    for (; i + LANES <= count; i += LANES) {
        int64_t base[LANES] = {};
        for (int64_t length = size; length > 1; length -= length / 2) {
            const int64_t half = length / 2;
            for (int k = 0; k < LANES; ++k)
                base[k] += table[base[k] + half - 1] < ids[i + k] ? half : 0;
        }
        for (int k = 0; k < LANES; ++k) {
            const int64_t position = base[k] + (table[base[k]] < ids[i + k]);
            out[i + k] = answer(table, size, position, ids[i + k]);
        }
    }
#endif
    for (; i < count; ++i) {
        const int64_t id = ids[i];
#if SEARCH == 0
        int64_t low = 0, high = size;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (table[middle] < id) low = middle + 1;
            else high = middle;
        }
        out[i] = answer(table, size, low, id);
#else
        int64_t base = 0;
        for (int64_t length = size; length > 1; length -= length / 2) {
            const int64_t half = length / 2;
            base += table[base + half - 1] < id ? half : 0;
        }
        out[i] = answer(table, size, base + (table[base] < id), id);
#endif
    }
}
"""  # noqa: E501
_lib = load_cpp(
    SOURCE,
    flags=(PARAMS["LEVEL"], f"-mprefer-vector-width={PARAMS['WIDTH']}"),
    defines={
        "SEARCH": ["branching", "branchless", "interleaved"].index(PARAMS["SEARCH"]),
        "LANES": PARAMS["LANES"],
    },
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        generator = torch.Generator().manual_seed(7)
        steps = torch.randint(1, 5, (size,), generator=generator, dtype=torch.int64)
        self.register_buffer("table", torch.cumsum(steps, 0))

    def forward(self, ids):
        ids = ids.contiguous()
        out = torch.empty_like(ids)
        _lib.map_ids(ids, self.table, out, ids.numel(), self.table.numel())
        return out
