"""Operator families: a closed set of words for what a page is about and what a task computes."""

from __future__ import annotations

import re
from collections.abc import Iterable

# name -> parts of operator names (of ATen, or as people write them) that belong to it; an operator
# belongs to the first family with a matching part
_PARTS: dict[str, tuple[str, ...]] = {
    "attention": ("scaled_dot_product", "attention", "flash_attn", "sdpa"),
    "quantized": ("scaled_mm", "int4", "int8", "_int_mm", "dequantize", "quantize", "weight_int",
                  "rshift", "right_shift"),  # what unpacks narrow integers
    "grouped": ("grouped_mm", "moe"),
    "convolution": ("conv", "unfold", "im2col"),
    "pooling": ("pool", "interpolate", "upsample"),
    "loss": ("cross_entropy", "nll_loss", "loss", "kl_div"),
    "softmax": ("softmax", "logsumexp"),
    "random": ("dropout", "bernoulli", "rand", "philox", "multinomial", "uniform", "normal.",
               "normal_."),  # before "norm"
    "normalization": ("norm", "batch_norm", "var_mean"),
    "embedding": ("embedding", "embedding_bag"),
    "sort": ("sort", "topk", "kthvalue", "argsort", "unique", "median", "msort"),
    "scan": ("cumsum", "cumprod", "cummax", "cummin", "scan", "logcumsumexp"),
    "histogram": ("bincount", "histc", "histogram", "bucketize", "searchsorted"),
    "segment": ("segment", "jagged", "offsets", "nested", "ragged"),
    "scatter": ("scatter", "index_add", "index_put", "index_copy", "index_reduce",
                "masked_scatter"),
    "gather": ("gather", "index_select", "index.tensor", "take", "masked_select", "lookup"),
    "matmul": ("matmul", "mm.", "bmm", "baddbmm", "addmm", "linear", "einsum", "mv.", "dot",
               "outer", "bilinear", "gemm", "gemv"),
    "interaction": ("interaction", "factorization", "cross_network"),
    "layout": ("transpose", "permute", "cat", "stack", "pad", "roll", "flip", "contiguous", "clone",
               "repeat"),
    "reduction": ("sum", "mean", "amax", "amin", "max", "min", "prod", "any", "all", "std", "var",
                  "argmax", "argmin"),
    "elementwise": (
        "add", "mul", "sub", "div", "exp", "log", "tanh", "sigmoid", "relu", "gelu", "silu",
        "where", "pow", "sqrt", "clamp", "erf", "sin", "cos", "abs", "neg", "swiglu", "rotary",
        "hardtanh", "elu", "softplus", "exp2", "expm1", "log2", "log10", "log1p", "xlogy", "logit",
        "masked_fill", "mish", "hardswish", "reciprocal", "floor", "ceil", "round", "trunc",
        "maximum", "minimum", "lerp", "tril", "triu",
    ),
}  # fmt: skip
FAMILIES = frozenset(_PARTS)


def of_operator(name: str) -> str:
    """Return the family of an operator such as "aten.native_layer_norm.default", "" for none."""
    plain = name.removeprefix("aten.").lower() + "."
    words = set(re.split(r"[._]", plain))
    for family, parts in _PARTS.items():
        for part in parts:
            if (
                part in words
                or (len(part) > 3 and part in plain)
                or (part.endswith(".") and plain.startswith(part))
            ):
                return family
    return ""


def of_operators(names: Iterable[str]) -> tuple[str, ...]:
    """Return the families of some operators, each once, in order."""
    return tuple(dict.fromkeys(family for name in names if (family := of_operator(name))))
