"""Kernels in which operands meet: products, a convolution, pointwise arithmetic with broadcasting,
integer arithmetic."""

from __future__ import annotations

from .kernel import Kernel

_HEAD = "import torch\nimport torch.nn as nn\n\n"

LINEAR = Kernel(
    "linear_relu",
    "matmul",
    _HEAD
    + """CASES = {"odd": {"rows": 37, "inner": 131, "width": 45}, "deep": {"rows": 16, "inner": 1024, "width": 16}}


class Model(nn.Module):
    def __init__(self, inner, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, inner) / inner**0.5)
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return torch.relu(x @ self.weight.T + self.bias)


def get_inputs(rows=37, inner=131):
    return [torch.randn(rows, inner)]


def get_init_inputs(inner=131, width=45):
    return [inner, width]
""",  # noqa: E501
    """
extern "C" void run(const float* x, const float* w, const float* b, float* y, int64_t rows, int64_t inner, int64_t width) {
  const int64_t BLOCK = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += BLOCK)
    for (int64_t c0 = 0; c0 < width; c0 += BLOCK)
      for (int64_t r = r0; r < std::min(r0 + BLOCK, rows); r++)
        for (int64_t c = c0; c < std::min(c0 + BLOCK, width); c++) {
          float sum = 0;
          for (int64_t k = 0; k < inner; k++) sum += x[r * inner + k] * w[c * inner + k];
          sum += b[c];
          y[r * width + c] = sum > 0 ? sum : 0;
        }
}
""",  # noqa: E501
    "x",
    "w = self.weight\ny = torch.empty(x.shape[0], w.shape[0])\n"
    "lib.run(x, w, self.bias, y, x.shape[0], x.shape[1], w.shape[0])\nreturn y",
    {
        "last term of the sum skipped": ("k < inner; k++", "k < inner - 1; k++"),
        "first term of the sum skipped": ("int64_t k = 0", "int64_t k = 1"),
        "tail of an unroll by 4 dropped": ("k < inner; k++", "k < inner / 4 * 4; k++"),
        "last block of rows missing": ("r0 < rows; r0", "r0 + BLOCK <= rows; r0"),
        "last block of columns missing": ("c0 < width; c0", "c0 + BLOCK <= width; c0"),
        "one block missing": (
            "for (int64_t r = r0;",
            "if (r0 != BLOCK || c0)\n      for (int64_t r = r0;",
        ),
        "last row missing": ("std::min(r0 + BLOCK, rows)", "std::min(r0 + BLOCK, rows - 1)"),
        "weight not transposed": ("w[c * inner + k]", "w[k * width + c]"),
        "stride of the input": ("x[r * inner + k]", "x[r * width + k]"),
        "bias missing": ("sum += b[c];", ""),
        "bias of the row": ("b[c]", "b[r % width]"),
        "bias after the activation": (
            "sum += b[c];\n          y[r * width + c] = sum > 0 ? sum : 0;",
            "y[r * width + c] = (sum > 0 ? sum : 0) + b[c];",
        ),
        "activation missing": ("sum > 0 ? sum : 0", "sum"),
        "leaky activation": ("sum > 0 ? sum : 0", "sum > 0 ? sum : 0.01f * sum"),
        "sum not reset": ("{\n          float sum = 0;", "{\n          static float sum = 0;"),
        "half precision sum": ("float sum", "_Float16 sum"),
        "operands in half precision": (
            "x[r * inner + k] * w[c * inner + k]",
            "(float)(_Float16)x[r * inner + k] * (float)(_Float16)w[c * inner + k]",
        ),
        "operands truncated as tensor cores do": (
            "x[r * inner + k] * w[c * inner + k]",
            (
                "[](float v) { uint32_t u; std::memcpy(&u, &v, 4); u &= 0xffffe000u; "
                "std::memcpy(&v, &u, 4); return v; }(x[r * inner + k]) * w[c * inner + k]"
            ),
        ),
        "output column stride": ("y[r * width + c]", "y[c * rows + r]"),
    },
    parameters=(
        "self.weight = nn.Parameter(torch.empty(sizes[1], sizes[0]))\n"
        "self.bias = nn.Parameter(torch.empty(sizes[1]))"
    ),
    variants={
        "double sum": ("float sum", "double sum"),
        "bias first": ("float sum = 0;", "float sum = b[c] - b[c];"),
        "from the end": (
            "x[r * inner + k] * w[c * inner + k]",
            "x[r * inner + inner - 1 - k] * w[c * inner + inner - 1 - k]",
        ),
    },
)

CONV1D = Kernel(
    "conv1d",
    "convolution",
    _HEAD
    + """CASES = {"odd": {"channels": 5, "length": 61}, "long": {"channels": 2, "length": 400}}


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv1d(channels, 6, 5, stride=2, padding=2)

    def forward(self, x):
        return self.conv(x)


def get_inputs(channels=5, length=61):
    return [torch.randn(3, channels, length)]


def get_init_inputs(channels=5):
    return [channels]
""",
    """
extern "C" void run(const float* x, const float* w, const float* b, float* y, int64_t batch, int64_t in, int64_t length, int64_t out, int64_t made) {
  for (int64_t n = 0; n < batch; n++)
    for (int64_t o = 0; o < out; o++)
      for (int64_t t = 0; t < made; t++) {
        float sum = b[o];
        for (int64_t i = 0; i < in; i++)
          for (int64_t k = 0; k < 5; k++) {
            int64_t at = t * 2 + k - 2;
            if (at >= 0 && at < length) sum += x[(n * in + i) * length + at] * w[(o * in + i) * 5 + k];
          }
        y[(n * out + o) * made + t] = sum;
      }
}
""",  # noqa: E501
    "x",
    "made = (x.shape[2] - 1) // 2 + 1\ny = torch.empty(x.shape[0], 6, made)\n"
    "lib.run(x, self.weight, self.bias, y, x.shape[0], x.shape[1], x.shape[2], 6, made)\nreturn y",
    {
        "kernel flipped": ("* 5 + k]", "* 5 + 4 - k]"),
        "padding off by one": ("k - 2;", "k - 1;"),
        "left border excluded": ("at >= 0", "at > 0"),
        "right border excluded": ("at < length", "at < length - 1"),
        "right border not checked": ("at >= 0 && at < length", "at >= 0"),
        "left border not checked": ("at >= 0 && at < length", "at < length"),
        "stride missing": ("t * 2 +", "t +"),
        "last tap skipped": ("k < 5", "k < 4"),
        "last channel skipped": ("i < in; i++", "i < in - 1; i++"),
        "last output missing": ("t < made", "t < made - 1"),
        "bias missing": ("float sum = b[o]", "float sum = 0"),
        "bias of the channel before": ("b[o]", "b[o ? o - 1 : 0]"),
        "weight layout": ("w[(o * in + i) * 5 + k]", "w[(i * out + o) % (out * in) * 5 + k]"),
        "last batch missing": ("n < batch", "n < batch - 1"),
        "borders replicated": (
            "if (at >= 0 && at < length) sum",
            "at = std::clamp(at, (int64_t)0, length - 1);\n            sum",
        ),
        "half precision sum": ("float sum", "_Float16 sum"),
    },
    parameters=(
        "self.weight = nn.Parameter(torch.empty(6, sizes[0], 5))\n"
        "self.bias = nn.Parameter(torch.empty(6))"
    ),
    variants={"double sum": ("float sum", "double sum")},
)

GELU = Kernel(
    "gelu_residual",
    "pointwise",
    _HEAD
    + """CASES = {"odd": {"rows": 33, "width": 117}, "row": {"rows": 1, "width": 4099}}


def reference(x, bias, residual):
    return torch.nn.functional.gelu(x + bias) + residual


def get_inputs(rows=33, width=117):
    return [torch.randn(rows, width), torch.randn(width), torch.randn(rows, width)]
""",
    """
extern "C" void run(const float* x, const float* b, const float* r, float* y, int64_t rows, int64_t width) {
  for (int64_t i = 0; i < rows * width; i++) {
    float v = x[i] + b[i % width];
    y[i] = 0.5f * v * (1.0f + std::erf(v * 0.70710678118654752f)) + r[i];
  }
}
""",  # noqa: E501
    "x, bias, residual",
    "y = torch.empty_like(x)\nlib.run(x, bias, residual, y, x.shape[0], x.shape[1])\nreturn y",
    {
        "tanh form": (
            "0.5f * v * (1.0f + std::erf(v * 0.70710678118654752f))",
            "0.5f * v * (1.0f + std::tanh(0.7978845608f * (v + 0.044715f * v * v * v)))",
        ),
        "sigmoid form": (
            "0.5f * v * (1.0f + std::erf(v * 0.70710678118654752f))",
            "v / (1.0f + std::exp(-1.702f * v))",
        ),
        "half missing": ("0.5f * v *", "v *"),
        "root missing": ("v * 0.70710678118654752f", "v"),
        "residual missing": (" + r[i]", ""),
        "residual of the first row": ("r[i]", "r[i % width]"),
        "bias of the row": ("b[i % width]", "b[i / width % width]"),
        "bias missing": (" + b[i % width]", ""),
        "bias in the residual": ("x[i] + b[i % width];", "x[i];\n    v += 0 * b[0];"),
        "last element missing": ("i < rows * width", "i < rows * width - 1"),
        "first element missing": ("int64_t i = 0", "int64_t i = 1"),
        "tail of a vector loop dropped": ("i < rows * width", "i < rows * width / 16 * 16"),
        "index in sixteen bits": (
            "int64_t i = 0; i < rows * width; i++) {",
            "int64_t j = 0; j < rows * width; j++) { int64_t i = (int64_t)(uint16_t)j % 2048;",
        ),
        "half precision argument": (
            "float v = x[i] + b[i % width]",
            "float v = (float)(_Float16)(x[i] + b[i % width])",
        ),
        "saturated early": (
            "std::erf(v * 0.70710678118654752f)",
            "(v > 3 ? 1.0f : v < -3 ? -1.0f : std::erf(v * 0.70710678118654752f))",
        ),
        "through an integer": ("0.5f * v *", "0.5f * (float)(int)v *"),
    },
    variants={
        "complementary": (
            "(1.0f + std::erf(v * 0.70710678118654752f))",
            "(2.0f - std::erfc(v * 0.70710678118654752f))",
        )
    },
)

INTEGER_DOT = Kernel(
    "integer_dot",
    "integers",
    _HEAD
    + """CASES = {"odd": {"rows": 19, "width": 333}}


def reference(a, b):
    return (a.int() * b.int()).sum(-1)


def get_inputs(rows=19, width=333):
    return [torch.randint(-128, 128, (rows, width), dtype=torch.int8), torch.randint(-128, 128, (rows, width), dtype=torch.int8)]
""",  # noqa: E501
    """
extern "C" void run(const int8_t* a, const int8_t* b, int64_t* y, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; r++) {
    int32_t sum = 0;
    for (int64_t c = 0; c < width; c++) sum += (int32_t)a[r * width + c] * (int32_t)b[r * width + c];
    y[r] = sum;
  }
}
""",  # noqa: E501
    "a, b",
    "y = torch.empty(a.shape[0], dtype=torch.int64)\nlib.run(a, b, y, a.shape[0], a.shape[1])\n"
    "return y",
    {
        "sixteen bit sum overflows": ("int32_t sum", "int16_t sum"),
        "eight bit product overflows": (
            "(int32_t)a[r * width + c] * (int32_t)b[r * width + c]",
            "(int8_t)(a[r * width + c] * b[r * width + c])",
        ),
        "sixteen bit saturation": (
            "sum += (int32_t)a[r * width + c] * (int32_t)b[r * width + c]",
            "sum = std::clamp(sum + a[r * width + c] * b[r * width + c], -32768, 32767)",
        ),
        "unsigned operand": ("(int32_t)a[r * width + c]", "(int32_t)(uint8_t)a[r * width + c]"),
        "float sum of halves": ("int32_t sum", "_Float16 sum"),
        "tail of an unroll by 4 dropped": ("c < width", "c < width / 4 * 4"),
        "last row missing": ("r < rows", "r < rows - 1"),
        "row of the other operand": ("(int32_t)b[r * width + c]", "(int32_t)b[c]"),
    },
    variants={"wide sum": ("int32_t sum", "int64_t sum")},
)

PRODUCTS = (LINEAR, CONV1D, GELU, INTEGER_DOT)
