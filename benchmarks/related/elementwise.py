"""Chains of elementwise operators on two tensors."""

from __future__ import annotations

from . import plain

SOURCE = """extern "C" void chain(const float* __restrict a, const float* __restrict b, float* __restrict y, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const float x = a[i], g = b[i];
        y[i] = VALUE;
    }
}
"""  # noqa: E501


def texts(shape: tuple[int, int], expression: str, native: str) -> tuple[str, str]:
    """Task and start. expression, native: of x and g, in Python and in C++."""
    body = f"    def forward(self, x, g):\n        return {expression}\n"
    call = (
        "    def forward(self, x, g):\n        x = x.contiguous()\n"
        "        y = torch.empty_like(x)\n"
        "        _lib.chain(x, g.contiguous(), y, x.numel())\n        return y\n"
    )
    drawn = f"torch.randn({shape[0]}, {shape[1]})"
    return plain.task(body, f"[{drawn}, {drawn}]"), plain.start(
        SOURCE.replace("VALUE", native), call
    )
