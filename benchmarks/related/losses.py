"""Softmax and its loss over rows of logits, summed up in one way or another."""

from __future__ import annotations

from . import plain

SOURCE = """extern "C" void losses(const float* __restrict x, const int64_t* __restrict target, float* __restrict y, int64_t rows, int64_t cols) {
    double total = 0;
    for (int64_t row = 0; row < rows; ++row) {
        const float* xr = x + row * cols;
        float most = xr[0], sum = 0;
        for (int64_t i = 1; i < cols; ++i) most = xr[i] > most ? xr[i] : most;
        for (int64_t i = 0; i < cols; ++i) sum += std::exp(xr[i] - most);
        const float loss = std::log(sum) + most - xr[target[row]];
        if (EACH) y[row] = loss;
        total += loss;
    }
    if (!EACH) y[0] = (float)(total / DIVISOR);
}
"""  # noqa: E501


def texts(shape: tuple[int, int], reduction: str) -> tuple[str, str]:
    """Task and start. reduction: mean, sum or none."""
    rows, cols = shape
    body = (
        "    def forward(self, logits, target):\n        return F.cross_entropy(logits, target, "
        f'reduction="{reduction}")\n'
    )
    source = SOURCE.replace("EACH", str(int(reduction == "none"))).replace(
        "DIVISOR", "rows" if reduction == "mean" else "1"
    )
    size = "logits.shape[0]" if reduction == "none" else "()"
    call = (
        "    def forward(self, logits, target):\n        logits = logits.contiguous()\n"
        f"        y = torch.empty({size})\n        _lib.losses(logits, target.contiguous(), y, "
        "*logits.shape)\n        return y\n"
    )
    inputs = f"[torch.randn({rows}, {cols}), torch.randint(0, {cols}, ({rows},))]"
    return plain.task(body, inputs), plain.start(source, call)
