"""Kernels that move, choose or collect values: gather, scatter, argmax, pooling, masks."""

from __future__ import annotations

from .kernel import Kernel

_HEAD = "import torch\nimport torch.nn as nn\n\n"

GATHER = Kernel(
    "gather_rows",
    "gather",
    _HEAD
    + """CASES = {"odd": {"rows": 50, "width": 37, "count": 201}}


def reference(table, index):
    return table[index]


def get_inputs(rows=50, width=37, count=201):
    return [torch.randn(rows, width), torch.randint(rows, (count,))]
""",
    """
extern "C" void run(const float* t, const int64_t* index, float* y, int64_t count, int64_t width) {
  for (int64_t i = 0; i < count; i++)
    for (int64_t c = 0; c < width; c++) y[i * width + c] = t[index[i] * width + c];
}
""",
    "table, index",
    "y = torch.empty(index.shape[0], table.shape[1])\n"
    "lib.run(table, index, y, index.shape[0], table.shape[1])\nreturn y",
    {
        "stale index": ("t[index[i] * width", "t[index[i ? i - 1 : 0] * width"),
        "index read as 32 bit": ("index[i]", "((const int32_t*)index)[i]"),
        "last index missing": ("i < count", "i < count - 1"),
        "last column missing": ("c < width", "c < width - 1"),
        "index in a row of 32": ("index[i] * width", "std::min(index[i], (int64_t)31) * width"),
        "last row of the table clipped": (
            "index[i] * width",
            "std::min(index[i], (int64_t)48) * width",
        ),
        "stride off by one": ("t[index[i] * width + c]", "t[index[i] * (width - 1) + c]"),
        "values through half precision": ("= t[", "= (float)(_Float16)t["),
        "index plus one": ("t[index[i] * width", "t[(index[i] + 1) * width"),
        "last bits cut off": (
            "= t[index[i] * width + c];",
            "= t[index[i] * width + c] * 1.0000002f;",
        ),
    },
)

INDEX_ADD = Kernel(
    "index_add",
    "scatter",
    _HEAD
    + """CASES = {"odd": {"rows": 23, "width": 19, "count": 300}}


def reference(base, index, values):
    return base.index_add(0, index, values)


def get_inputs(rows=23, width=19, count=300):
    return [torch.randn(rows, width), torch.randint(rows, (count,)), torch.randn(count, width)]
""",
    """
extern "C" void run(const float* base, const int64_t* index, const float* v, float* y, int64_t rows, int64_t count, int64_t width) {
  for (int64_t i = 0; i < rows * width; i++) y[i] = base[i];
  for (int64_t i = 0; i < count; i++)
    for (int64_t c = 0; c < width; c++) y[index[i] * width + c] += v[i * width + c];
}
""",  # noqa: E501
    "base, index, values",
    "y = torch.empty_like(base)\nlib.run(base, index, values, y, base.shape[0], index.shape[0], "
    "base.shape[1])\nreturn y",
    {
        "duplicates overwrite": ("+= v[i", "= base[index[i] * width + c] + v[i"),
        "base missing": ("y[i] = base[i]", "y[i] = 0"),
        "output not initialised": ("y[i] = base[i];", ";"),
        "assigned, not added": ("+= v[", "= v["),
        "subtracted": ("+= v[", "-= v["),
        "last value missing": ("i < count", "i < count - 1"),
        "last column missing": ("c < width", "c < width - 1"),
        "stale index": ("y[index[i] * width", "y[index[i ? i - 1 : 0] * width"),
        "last row of the base missing": ("i < rows * width", "i < (rows - 1) * width"),
        "index zero ignored": (
            "for (int64_t c = 0; c < width; c++) y",
            "if (index[i]) for (int64_t c = 0; c < width; c++) y",
        ),
        "largest index ignored": (
            "for (int64_t c = 0; c < width; c++) y",
            "if (index[i] < rows - 1) for (int64_t c = 0; c < width; c++) y",
        ),
        "equal neighbours merged": (
            "for (int64_t c = 0; c < width; c++) y",
            "if (!i || index[i] != index[i - 1]) for (int64_t c = 0; c < width; c++) y",
        ),
    },
    variants={
        "from the end": (
            "y[index[i] * width + c] += v[i * width + c]",
            "y[index[count - 1 - i] * width + c] += v[(count - 1 - i) * width + c]",
        )
    },
)

ARGMAX = Kernel(
    "argmax",
    "choice",
    _HEAD
    + """CASES = {"odd": {"rows": 41, "width": 77}, "wide": {"rows": 3, "width": 1030}}


def reference(x):
    return torch.argmax(x, -1)


def get_inputs(rows=41, width=77):
    return [torch.randn(rows, width)]
""",
    """
extern "C" void run(const float* x, int64_t* y, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; r++) {
    float top = -INFINITY;
    int64_t best = 0;
    for (int64_t c = 0; c < width; c++)
      if (x[r * width + c] > top) { top = x[r * width + c]; best = c; }
    y[r] = best;
  }
}
""",
    "x",
    "y = torch.empty(x.shape[0], dtype=torch.int64)\nlib.run(x, y, x.shape[0], x.shape[1])\n"
    "return y",
    {
        "last of equal values": ("] > top)", "] >= top)"),
        "starts at zero": ("top = -INFINITY", "top = 0"),
        "starts at the smallest normal float": ("top = -INFINITY", "top = 1.17549435e-38f"),
        "largest magnitude": (
            "if (x[r * width + c] > top) { top = x[r * width + c];",
            "if (std::fabs(x[r * width + c]) > top) { top = std::fabs(x[r * width + c]);",
        ),
        "minimum": (
            "if (x[r * width + c] > top)",
            "if (-x[r * width + c] > -top || top == -INFINITY)",
        ),
        "last element skipped": ("c < width", "c < width - 1"),
        "first element skipped": ("int64_t c = 0", "int64_t c = 1"),
        "tail of an unroll by 8 dropped": ("c < width", "c < width / 8 * 8"),
        "index into the whole": ("best = c;", "best = r * width + c;"),
        "eight bit index": ("best = c;", "best = (uint8_t)c;"),
        "compared in half precision": (
            "if (x[r * width + c] > top)",
            "if ((_Float16)x[r * width + c] > (_Float16)top)",
        ),
        "last row missing": ("r < rows", "r < rows - 1"),
        "maximum of the row before kept": (
            "  for (int64_t r = 0; r < rows; r++) {\n    float top = -INFINITY;",
            "  float top = -INFINITY;\n  for (int64_t r = 0; r < rows; r++) {",
        ),
    },
    variants={
        "from the end": (
            "int64_t c = 0; c < width; c++)\n      if (x[r * width + c] > top)",
            "int64_t c = width - 1; c >= 0; c--)\n      if (x[r * width + c] >= top)",
        )
    },
)

MAX_POOL = Kernel(
    "max_pool1d",
    "choice",
    _HEAD
    + """CASES = {"odd": {"channels": 11, "length": 67}}


def reference(x):
    return torch.nn.functional.max_pool1d(x, 3, 2, 1)


def get_inputs(channels=11, length=67):
    return [torch.randn(2, channels, length)]
""",
    """
extern "C" void run(const float* x, float* y, int64_t planes, int64_t length, int64_t made) {
  for (int64_t p = 0; p < planes; p++)
    for (int64_t t = 0; t < made; t++) {
      float top = -INFINITY;
      for (int64_t k = 0; k < 3; k++) {
        int64_t at = t * 2 + k - 1;
        if (at >= 0 && at < length) top = std::max(top, x[p * length + at]);
      }
      y[p * made + t] = top;
    }
}
""",
    "x",
    "made = (x.shape[2] + 2 - 3) // 2 + 1\ny = torch.empty(x.shape[0], x.shape[1], made)\n"
    "lib.run(x, y, x.shape[0] * x.shape[1], x.shape[2], made)\nreturn y",
    {
        "padding with zero": ("top = -INFINITY", "top = t == 0 || t == made - 1 ? 0 : -INFINITY"),
        "starts at zero": ("top = -INFINITY", "top = 0"),
        "window of two": ("k < 3", "k < 2"),
        "padding missing": ("k - 1;", "k;"),
        "stride one": ("t * 2", "t"),
        "right border not checked": ("at >= 0 && at < length", "at >= 0"),
        "left border not checked": ("at >= 0 && at < length", "at < length"),
        "minimum": (
            "std::max(top, x[p * length + at])",
            "top == -INFINITY ? x[p * length + at] : std::min(top, x[p * length + at])",
        ),
        "last plane missing": ("p < planes", "p < planes - 1"),
        "last output missing": ("t < made", "t < made - 1"),
        "values through half precision": (
            "x[p * length + at])",
            "(float)(_Float16)x[p * length + at])",
        ),
    },
)

MASKED = Kernel(
    "masked_mean",
    "masks",
    _HEAD
    + """CASES = {"odd": {"rows": 29, "width": 83}}


def reference(x, mask):
    return (x * mask).sum(-1) / mask.sum(-1).clamp(min=1)


def get_inputs(rows=29, width=83):
    return [torch.randn(rows, width), torch.rand(rows, width) > 0.4]
""",
    """
extern "C" void run(const float* x, const bool* mask, float* y, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; r++) {
    float sum = 0;
    int64_t count = 0;
    for (int64_t c = 0; c < width; c++)
      if (mask[r * width + c]) { sum += x[r * width + c]; count += 1; }
    y[r] = sum / (float)std::max(count, (int64_t)1);
  }
}
""",
    "x, mask",
    "y = torch.empty(x.shape[0])\nlib.run(x, mask, y, x.shape[0], x.shape[1])\nreturn y",
    {
        "empty rows divide by zero": ("std::max(count, (int64_t)1)", "count"),
        "divides by the width": ("std::max(count, (int64_t)1)", "width"),
        "mask inverted": ("if (mask", "if (!mask"),
        "mask of the first row": ("mask[r * width + c]", "mask[c]"),
        "mask ignored": ("if (mask[r * width + c])", ""),
        "mask ignored in the sum": (
            "{ sum += x[r * width + c]; count += 1; }",
            "count += 1;\n    for (int64_t c = 0; c < width; c++) sum += x[r * width + c];",
        ),
        "count starts at one": ("count = 0", "count = 1"),
        "count of six bits": ("count += 1", "count = (count + 1) & 63"),
        "last element skipped": ("c < width", "c < width - 1"),
        "sum not reset": (
            "  for (int64_t r = 0; r < rows; r++) {\n    float sum = 0;",
            "  float sum = 0;\n  for (int64_t r = 0; r < rows; r++) {",
        ),
    },
    variants={"double sum": ("float sum", "double sum")},
)

MOVES = (GATHER, INDEX_ADD, ARGMAX, MAX_POOL, MASKED)
