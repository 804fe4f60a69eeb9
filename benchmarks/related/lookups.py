"""Rows of a table by number, as they are or summed up by bags."""

from __future__ import annotations

from . import plain

SOURCE = """extern "C" void lookup(const int64_t* __restrict ids, const float* __restrict table, float* __restrict y, int64_t bags, int64_t length,
                       int64_t width) {
    for (int64_t bag = 0; bag < bags; ++bag) {
        float* yr = y + bag * width;
        for (int64_t i = 0; i < width; ++i) yr[i] = 0;
        for (int64_t k = 0; k < length; ++k) {
            const float* row = table + ids[bag * length + k] * width;
            for (int64_t i = 0; i < width; ++i) yr[i] += row[i];
        }
    }
}
"""  # noqa: E501


def texts(
    rows: int, width: int, shape: tuple[int, ...], *, pooled: bool = False
) -> tuple[str, str]:
    """Task and start. pooled: the rows of a bag (the last axis of the numbers) are summed up."""
    made = (
        "        super().__init__()\n        self.table = nn.Parameter(torch.randn(rows, width))\n"
    )
    found = "F.embedding(ids, self.table)"
    body = (
        f"    def __init__(self, rows, width):\n{made}\n    def forward(self, ids):\n"
        f"        return {f'{found}.sum(1)' if pooled else found}\n"
    )
    count = "ids.shape[1]" if pooled else "1"
    call = (
        f"    def __init__(self, rows, width):\n{made}\n    def forward(self, ids):\n"
        "        ids = ids.contiguous()\n"
        "        y = torch.empty(ids.shape[0], self.table.shape[1])\n"
        f"        _lib.lookup(ids, self.table, y, ids.shape[0], {count}, self.table.shape[1])\n"
        "        return y\n"
    )
    inputs = f"[torch.randint(0, {rows}, {shape})]"
    return plain.task(body, inputs, f"[{rows}, {width}]"), plain.start(SOURCE, call)
