"""Kernels that work row by row: reductions, norms, softmax, a loss, a scan."""

from __future__ import annotations

from .kernel import Kernel

_CASES = 'CASES = {"wide": {"rows": 9, "width": 1031}, "tall": {"rows": 70, "width": 96}}\n'
_HEAD = "import torch\nimport torch.nn as nn\n\n" + _CASES
_INPUTS = "\n\ndef get_inputs(rows=9, width=1031):\n    return [torch.randn(rows, width)]\n"
_WIDTH = "\n\ndef get_init_inputs(width=1031):\n    return [width]\n"
_ROWS = "y = torch.empty_like(x)\nlib.run({0}, y, x.shape[0], x.shape[1])\nreturn y"

MEAN = Kernel(
    "mean",
    "reduction",
    _HEAD + "\n\ndef reference(x):\n    return x.mean(-1)\n" + _INPUTS,
    """
extern "C" void run(const float* x, float* y, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; r++) {
    float sum = 0;
    for (int64_t c = 0; c < width; c++) sum += x[r * width + c];
    y[r] = sum / (float)width;
  }
}
""",
    "x",
    "y = torch.empty(x.shape[0])\nlib.run(x, y, x.shape[0], x.shape[1])\nreturn y",
    {
        "first element skipped": ("int64_t c = 0; c", "int64_t c = 1; c"),
        "last element skipped": ("c < width; c++) sum", "c < width - 1; c++) sum"),
        "one element too many": ("c < width; c++) sum", "c <= width; c++) sum"),
        "tail of an unroll by 8 dropped": ("c < width; c++) sum", "c < width / 8 * 8; c++) sum"),
        "last row missing": ("r < rows", "r < rows - 1"),
        "rows swapped for columns": ("x[r * width + c]", "x[c * rows + r]"),
        "sum not reset": (
            "  for (int64_t r = 0; r < rows; r++) {\n    float sum = 0;",
            "  float sum = 0;\n  for (int64_t r = 0; r < rows; r++) {",
        ),
        "scale missing": ("sum / (float)width", "sum"),
        "unbiased divisor": ("(float)width", "(float)(width - 1)"),
        "half precision accumulator": ("float sum", "_Float16 sum"),
        "half precision terms": ("+= x[", "+= (float)(_Float16)x["),
        "integer accumulator": ("float sum", "int sum"),
        "magnitudes summed": ("+= x[r * width + c]", "+= std::fabs(x[r * width + c])"),
    },
    variants={
        "double accumulator": ("float sum", "double sum"),
        "from the end": (
            "c = 0; c < width; c++) sum += x[r * width + c]",
            "c = 0; c < width; c++) sum += x[r * width + width - 1 - c]",
        ),
        "reciprocal": ("sum / (float)width", "sum * (1.0f / (float)width)"),
    },
)

HALF_SUM = Kernel(
    "half_sum",
    "reduction",
    _HEAD
    + (
        "\n\ndef reference(x):\n    return x.sum(-1)\n\n\ndef get_inputs(rows=9, width=1031):\n"
        "    return [torch.randn(rows, width).half()]\n"
    ),
    """
extern "C" void run(const _Float16* x, _Float16* y, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; r++) {
    float sum = 0;
    for (int64_t c = 0; c < width; c++) sum += (float)x[r * width + c];
    y[r] = (_Float16)sum;
  }
}
""",
    "x",
    "y = torch.empty(x.shape[0], dtype=torch.half)\nlib.run(x, y, x.shape[0], x.shape[1])\n"
    "return y",
    {
        "half precision accumulator": ("float sum", "_Float16 sum"),
        "last element skipped": ("c < width; c++) sum", "c < width - 1; c++) sum"),
        "first element skipped": ("int64_t c = 0; c", "int64_t c = 1; c"),
        "one element too many": ("c < width; c++) sum", "c <= width; c++) sum"),
        "tail of an unroll by 16 dropped": ("c < width; c++) sum", "c < width / 16 * 16; c++) sum"),
        "eight bit terms": (
            "(float)x[r * width + c]",
            "std::round((float)x[r * width + c] * 16) / 16",
        ),
        "stale row": ("x[r * width + c]", "x[(r ? r - 1 : 0) * width + c]"),
        "last row missing": ("r < rows", "r < rows - 1"),
        "integer accumulator": ("float sum", "int sum"),
    },
    variants={
        "double accumulator": ("float sum", "double sum"),
        "from the end": (
            "sum += (float)x[r * width + c]",
            "sum += (float)x[r * width + width - 1 - c]",
        ),
    },
)

RMSNORM = Kernel(
    "rmsnorm",
    "norm",
    _HEAD
    + """

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight
"""
    + _INPUTS
    + _WIDTH,
    """
extern "C" void run(const float* x, const float* w, float* y, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; r++) {
    const float* p = x + r * width;
    float sum = 0;
    for (int64_t c = 0; c < width; c++) sum += p[c] * p[c];
    float scale = 1.0f / std::sqrt(sum / (float)width + 1e-5f);
    for (int64_t c = 0; c < width; c++) y[r * width + c] = p[c] * scale * w[c];
  }
}
""",
    "x",
    _ROWS.format("x, self.weight"),
    {
        "epsilon outside the root": (
            "1.0f / std::sqrt(sum / (float)width + 1e-5f)",
            "1.0f / (std::sqrt(sum / (float)width) + 1e-5f)",
        ),
        "epsilon before the mean": (
            "std::sqrt(sum / (float)width + 1e-5f)",
            "std::sqrt((sum + 1e-5f) / (float)width)",
        ),
        "epsilon missing": (" + 1e-5f", ""),
        "another epsilon": ("1e-5f", "1e-6f"),
        "mean missing": ("sum / (float)width", "sum"),
        "unbiased divisor": ("(float)width", "(float)(width - 1)"),
        "weight missing": (" * w[c]", ""),
        "weight of the row": ("w[c]", "w[r]"),
        "weight plus one": ("w[c]", "(1 + w[c])"),
        "last column missing": ("c < width; c++) y", "c < width - 1; c++) y"),
        "last row missing": ("r < rows", "r < rows - 1"),
        "sum of values": ("p[c] * p[c]", "p[c]"),
        "last element skipped in the sum": ("c < width; c++) sum", "c < width - 1; c++) sum"),
        "half precision sum": ("float sum", "_Float16 sum"),
        "scale of the row before": (
            (
                "const float* p = x + r * width;\n    float sum = 0;\n"
                "    for (int64_t c = 0; c < width; c++) sum += p[c] * p[c];"
            ),
            (
                "const float* p = x + r * width;\n    const float* q = r ? p - width : p;\n"
                "    float sum = 0;\n    for (int64_t c = 0; c < width; c++) sum += q[c] * q[c];"
            ),
        ),
        "fast reciprocal root": (
            "1.0f / std::sqrt(sum / (float)width + 1e-5f)",
            "(float)(_Float16)(1.0f / std::sqrt(sum / (float)width + 1e-5f))",
        ),
        "weight packed once": (
            "lib.run(x, self.weight, y",
            (
                "self.w = getattr(self, 'w', None) if hasattr(self, 'w') else "
                "self.weight.detach().clone()\nlib.run(x, self.w, y"
            ),
        ),
        "one output for all calls": (
            "y = torch.empty_like(x)",
            (
                "self.y = self.y if getattr(self, 'y', None) is not None and self.y.shape == "
                "x.shape else torch.empty_like(x)\ny = self.y"
            ),
        ),
    },
    parameters="self.weight = nn.Parameter(torch.empty(sizes[0]))",
    variants={
        "double accumulator": ("float sum", "double sum"),
        "weight first": ("p[c] * scale * w[c]", "p[c] * (scale * w[c])"),
        "division": ("p[c] * scale * w[c]", "p[c] / (1.0f / scale) * w[c]"),
    },
)

LAYERNORM = Kernel(
    "layernorm",
    "norm",
    _HEAD
    + """

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)

    def forward(self, x):
        return self.norm(x)
"""
    + _INPUTS
    + _WIDTH,
    """
extern "C" void run(const float* x, const float* w, const float* b, float* y, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; r++) {
    const float* p = x + r * width;
    float mean = 0, variance = 0;
    for (int64_t c = 0; c < width; c++) mean += p[c];
    mean /= (float)width;
    for (int64_t c = 0; c < width; c++) variance += (p[c] - mean) * (p[c] - mean);
    float scale = 1.0f / std::sqrt(variance / (float)width + 1e-5f);
    for (int64_t c = 0; c < width; c++) y[r * width + c] = (p[c] - mean) * scale * w[c] + b[c];
  }
}
""",  # noqa: E501
    "x",
    _ROWS.format("x, self.weight, self.bias"),
    {
        "mean not subtracted": ("y[r * width + c] = (p[c] - mean)", "y[r * width + c] = p[c]"),
        "variance around zero": ("(p[c] - mean) * (p[c] - mean)", "p[c] * p[c]"),
        "unbiased variance": ("variance / (float)width", "variance / (float)(width - 1)"),
        "epsilon outside the root": (
            "1.0f / std::sqrt(variance / (float)width + 1e-5f)",
            "1.0f / (std::sqrt(variance / (float)width) + 1e-5f)",
        ),
        "another epsilon": ("1e-5f", "1e-12f"),
        "bias missing": (" + b[c]", ""),
        "bias before the weight": ("* w[c] + b[c]", "* (w[c] + b[c])"),
        "bias of the row": ("b[c]", "b[r]"),
        "last element skipped in the mean": ("c < width; c++) mean", "c < width - 1; c++) mean"),
        "last element skipped in the variance": (
            "c < width; c++) variance",
            "c < width - 1; c++) variance",
        ),
        "last column missing": ("c < width; c++) y", "c < width - 1; c++) y"),
        "mean in half precision": (
            "mean /= (float)width;",
            "mean = (float)(_Float16)(mean / (float)width);",
        ),
        "half precision variance": (
            "float mean = 0, variance = 0;",
            "float mean = 0; _Float16 variance = 0;",
        ),
        "one pass in single precision": (
            "variance += (p[c] - mean) * (p[c] - mean);",
            "variance += p[c] * p[c];\n    variance -= (float)width * mean * mean;",
        ),
        "every eighth column missing": (
            "c++) y[r * width + c] =",
            "c++) if (c % 8 != 7) y[r * width + c] =",
        ),
        "row stride off by one": (
            "const float* p = x + r * width;",
            "const float* p = x + r * (width - 1);",
        ),
    },
    parameters=(
        "self.weight = nn.Parameter(torch.empty(sizes[0]))\n"
        "self.bias = nn.Parameter(torch.empty(sizes[0]))"
    ),
    variants={
        "double accumulators": ("float mean = 0, variance = 0;", "double mean = 0, variance = 0;"),
        "shifted one pass in double": (
            "variance += (p[c] - mean) * (p[c] - mean);",
            "variance += (float)(((double)p[c] - mean) * ((double)p[c] - mean));",
        ),
    },
)

SOFTMAX = Kernel(
    "softmax",
    "softmax",
    _HEAD + "\n\ndef reference(x):\n    return torch.softmax(x, -1)\n" + _INPUTS,
    """
extern "C" void run(const float* x, float* y, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; r++) {
    const float* p = x + r * width;
    float top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < width; c++) top = std::max(top, p[c]);
    for (int64_t c = 0; c < width; c++) sum += y[r * width + c] = std::exp(p[c] - top);
    for (int64_t c = 0; c < width; c++) y[r * width + c] /= sum;
  }
}
""",
    "x",
    _ROWS.format("x"),
    {
        "maximum not subtracted": ("std::exp(p[c] - top)", "std::exp(p[c])"),
        "maximum starts at zero and smallest float": ("top = -INFINITY", "top = 1e-38f"),
        "minimum instead of maximum": (
            "std::max(top, p[c])",
            "std::min(top == -INFINITY ? p[c] : top, p[c])",
        ),
        "maximum of the first row": (
            "float top = -INFINITY, sum = 0;",
            "static float top; top = r ? top : -INFINITY; float sum = 0;",
        ),
        "maximum skips the last": ("c < width; c++) top", "c < width - 1; c++) top"),
        "sum skips the last": (
            "c < width; c++) sum += y[r * width + c] = std::exp(p[c] - top)",
            (
                "c < width; c++) { y[r * width + c] = std::exp(p[c] - top); if (c < width - 1) sum "
                "+= y[r * width + c]; }"
            ),
        ),
        "last column not divided": (
            "c < width; c++) y[r * width + c] /= sum",
            "c < width - 1; c++) y[r * width + c] /= sum",
        ),
        "half precision sum": (
            "float top = -INFINITY, sum = 0;",
            "float top = -INFINITY; _Float16 sum = 0;",
        ),
        "base two": ("std::exp(p[c] - top)", "std::exp2(p[c] - top)"),
        "epsilon in the sum": ("/= sum", "/= sum + 1e-6f"),
        "last row missing": ("r < rows", "r < rows - 1"),
        "sum of four rows": ("sum = 0;", "sum = 0; if (r % 4) sum += 1;"),
        "exponential clipped": (
            "std::exp(p[c] - top)",
            "std::exp(std::max(p[c] - top, -20.0f)) * (p[c] - top < -20 ? 1e3f : 1.0f)",
        ),
    },
    variants={
        "double sum": ("float top = -INFINITY, sum = 0;", "float top = -INFINITY; double sum = 0;"),
        "reciprocal": ("y[r * width + c] /= sum", "y[r * width + c] *= 1.0f / sum"),
        "powers of two": ("std::exp(p[c] - top)", "std::exp2((p[c] - top) * 1.4426950408889634f)"),
    },
)

CROSS_ENTROPY = Kernel(
    "cross_entropy",
    "loss",
    _HEAD
    + "\n\ndef reference(x, target):\n    return torch.nn.functional.cross_entropy(x, target)\n"
    + (
        "\n\ndef get_inputs(rows=9, width=1031):\n    return [torch.randn(rows, width), "
        "torch.randint(width, (rows,))]\n"
    ),
    """
extern "C" void run(const float* x, const int64_t* target, float* y, int64_t rows, int64_t width) {
  float loss = 0;
  for (int64_t r = 0; r < rows; r++) {
    const float* p = x + r * width;
    float top = p[0], sum = 0;
    for (int64_t c = 1; c < width; c++) top = std::max(top, p[c]);
    for (int64_t c = 0; c < width; c++) sum += std::exp(p[c] - top);
    loss += std::log(sum) + top - p[target[r]];
  }
  y[0] = loss / (float)rows;
}
""",
    "x, target",
    "y = torch.empty(())\nlib.run(x, target, y, x.shape[0], x.shape[1])\nreturn y",
    {
        "maximum not added back": ("std::log(sum) + top -", "std::log(sum) -"),
        "maximum not subtracted": ("std::exp(p[c] - top)", "std::exp(p[c])"),
        "sum instead of mean": ("loss / (float)rows", "loss"),
        "mean over all elements": ("loss / (float)rows", "loss / (float)(rows * width)"),
        "target of the first row": ("target[r]", "target[0]"),
        "target off by one": ("p[target[r]]", "p[(target[r] + 1) % width]"),
        "target read as 32 bit": ("target[r]", "((const int32_t*)target)[r]"),
        "last row missing": ("r < rows; r++", "r < rows - 1; r++"),
        "sum skips the last class": ("c < width; c++) sum", "c < width - 1; c++) sum"),
        "sum skips the first class": ("int64_t c = 0; c", "int64_t c = 1; c"),
        "base two logarithm": ("std::log(sum)", "std::log2(sum)"),
        "half precision loss": ("float loss", "_Float16 loss"),
        "sign": ("- p[target[r]]", "+ p[target[r]]"),
    },
    variants={
        "double loss": ("float loss", "double loss"),
        "double sum": ("float top = p[0], sum = 0;", "float top = p[0]; double sum = 0;"),
    },
)

CUMSUM = Kernel(
    "cumsum",
    "scan",
    _HEAD + "\n\ndef reference(x):\n    return torch.cumsum(x, -1)\n" + _INPUTS,
    """
extern "C" void run(const float* x, float* y, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; r++) {
    float sum = 0;
    for (int64_t c = 0; c < width; c++) {
      sum += x[r * width + c];
      y[r * width + c] = sum;
    }
  }
}
""",
    "x",
    _ROWS.format("x"),
    {
        "exclusive": (
            "sum += x[r * width + c];\n      y[r * width + c] = sum;",
            "y[r * width + c] = sum;\n      sum += x[r * width + c];",
        ),
        "from the end": ("sum += x[r * width + c];", "sum += x[r * width + width - 1 - c];"),
        "sum not reset": (
            "  for (int64_t r = 0; r < rows; r++) {\n    float sum = 0;",
            "  float sum = 0;\n  for (int64_t r = 0; r < rows; r++) {",
        ),
        "restarts at each block of 64": ("sum += x", "if (c % 64 == 0) sum = 0;\n      sum += x"),
        "carry lost at one block": ("sum += x", "if (c == 64) sum = 0;\n      sum += x"),
        "last column missing": ("c < width", "c < width - 1"),
        "half precision sum": ("float sum", "_Float16 sum"),
        "last row missing": ("r < rows", "r < rows - 1"),
        "element counted twice at a block's edge": (
            "sum += x[r * width + c];",
            "sum += x[r * width + c] * (c % 256 == 255 ? 2 : 1);",
        ),
    },
    variants={"double sum": ("float sum", "double sum")},
)

ROWS = (MEAN, HALF_SUM, RMSNORM, LAYERNORM, SOFTMAX, CROSS_ENTROPY, CUMSUM)
