"""Normalizations of rows: by the root mean square or the deviation, of a sum or not, with a bias or
not."""

from __future__ import annotations

from . import plain

SOURCE = """extern "C" void rows(const float* __restrict x, const float* __restrict r, const float* __restrict w, const float* __restrict b,
                     float* __restrict y, int64_t rows, int64_t cols) {
    for (int64_t row = 0; row < rows; ++row) {
        const float* xr = x + row * cols;
        const float* rr = r + row * cols;
        float* yr = y + row * cols;
        float sum = 0, squares = 0;
        for (int64_t i = 0; i < cols; ++i) yr[i] = VALUE;
        for (int64_t i = 0; i < cols; ++i) sum += yr[i];
        const float mean = CENTERED ? sum / cols : 0;
        for (int64_t i = 0; i < cols; ++i) squares += (yr[i] - mean) * (yr[i] - mean);
        const float scale = 1 / std::sqrt(squares / cols + 1e-5f);
        for (int64_t i = 0; i < cols; ++i) yr[i] = (yr[i] - mean) * scale * w[i] + SHIFT;
    }
}
"""  # noqa: E501


def texts(
    shape: tuple[int, int],
    *,
    residual: bool = False,
    centered: bool = False,
    bias: bool = False,
    library: bool = False,
) -> tuple[str, str]:
    """Task and start. library: the reference is the framework's own layer norm."""
    rows, cols = shape
    made = (
        "        super().__init__()\n        self.weight = nn.Parameter(1.0 + 0.1 * "
        "torch.randn(cols))\n"
    )
    made += "        self.bias = nn.Parameter(0.1 * torch.randn(cols))\n" if bias else ""
    arguments = "x, residual" if residual else "x"
    center = "        v = v - v.mean(-1, keepdim=True)\n" if centered else ""
    written = (
        f"        v = {'x + residual' if residual else 'x'}\n"
        f"{center}        v = v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-5)\n"
        f"        return v * self.weight{' + self.bias' if bias else ''}\n"
    )
    forward = (
        "        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, 1e-5)\n"
        if library
        else written
    )
    body = f"    def __init__(self, cols):\n{made}\n    def forward(self, {arguments}):\n{forward}"
    drawn = ", ".join([f"torch.randn({rows}, {cols})"] * (2 if residual else 1))
    source = SOURCE.replace("VALUE", "xr[i] + rr[i]" if residual else "xr[i]").replace(
        "CENTERED", str(int(centered))
    )
    source = source.replace("SHIFT", "b[i]" if bias else "0")
    call = (
        f"    def __init__(self, cols):\n{made}\n    def forward(self, {arguments}):\n"
        "        x = x.contiguous()\n        y = torch.empty_like(x)\n"
        f"        _lib.rows(x, {'residual.contiguous()' if residual else 'x'}, self.weight, "
        f"{'self.bias' if bias else 'self.weight'}, y, *x.shape)\n"
        "        return y\n"
    )
    return plain.task(body, f"[{drawn}]", f"[{cols}]"), plain.start(source, call)
