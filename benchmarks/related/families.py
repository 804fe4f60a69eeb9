"""The tasks: of each family some to learn on and some that are held out. Written as text, since
tasks are files."""

from __future__ import annotations

from dataclasses import dataclass

from . import elementwise, lookups, losses, rows


@dataclass(frozen=True)
class Related:
    """One task. learned: whether others may learn from it; the rest is held out."""

    family: str
    name: str
    task: str
    start: str
    learned: bool = False


FAMILIES: tuple[Related, ...] = (
    Related("rows", "rms", *rows.texts((512, 1024)), learned=True),
    Related(
        "rows",
        "layer_norm_written",
        *rows.texts((256, 2048), centered=True, bias=True),
        learned=True,
    ),
    Related("rows", "rms_residual", *rows.texts((384, 1536), residual=True)),
    Related("rows", "layer_norm", *rows.texts((768, 768), centered=True, bias=True, library=True)),
    Related("rows", "rms_wide", *rows.texts((64, 8192))),
    Related("softmax", "cross_entropy", *losses.texts((256, 4096), "mean"), learned=True),
    Related("softmax", "cross_entropy_sum", *losses.texts((128, 8192), "sum"), learned=True),
    Related("softmax", "cross_entropy_rows", *losses.texts((512, 2048), "none")),
    Related("softmax", "cross_entropy_wide", *losses.texts((64, 16000), "mean")),
    Related("softmax", "cross_entropy_narrow", *losses.texts((1024, 1000), "mean")),
    Related(
        "elementwise",
        "silu_gate",
        *elementwise.texts((512, 2048), "F.silu(x) * g", "x / (1 + std::exp(-x)) * g"),
        learned=True,
    ),
    Related(
        "elementwise",
        "tanh_sum",
        *elementwise.texts((1024, 1024), "torch.tanh(x) + g", "std::tanh(x) + g"),
        learned=True,
    ),
    Related(
        "elementwise",
        "gelu_sum",
        *elementwise.texts(
            (256, 4096), "F.gelu(x) + g", "0.5f * x * (1 + std::erf(x * 0.70710678f)) + g"
        ),
    ),
    Related(
        "elementwise",
        "sigmoid_mix",
        *elementwise.texts((768, 1024), "torch.sigmoid(g) * x + g", "x / (1 + std::exp(-g)) + g"),
    ),
    Related(
        "elementwise",
        "relu_product",
        *elementwise.texts((2048, 1024), "F.relu(x) * g", "(x > 0 ? x : 0) * g"),
    ),
    Related("lookups", "embedding", *lookups.texts(20_000, 64, (4096,)), learned=True),
    Related("lookups", "bag", *lookups.texts(20_000, 64, (512, 16), pooled=True), learned=True),
    Related("lookups", "embedding_wide", *lookups.texts(4_000, 256, (2048,))),
    Related("lookups", "embedding_narrow", *lookups.texts(50_000, 32, (8192,))),
    Related("lookups", "bag_long", *lookups.texts(20_000, 64, (128, 64), pooled=True)),
)

QUICK: tuple[Related, ...] = (
    Related("rows", "tiny_rms", *rows.texts((32, 256)), learned=True),
    Related("rows", "tiny_rms_residual", *rows.texts((32, 512), residual=True)),
    Related("lookups", "tiny_embedding", *lookups.texts(500, 32, (256,)), learned=True),
    Related("lookups", "tiny_embedding_wide", *lookups.texts(300, 64, (256,))),
)
