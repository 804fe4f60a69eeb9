"""Which family an operator belongs to."""

from __future__ import annotations

import pytest

from knowledge.families import FAMILIES, of_operator, of_operators


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("aten.native_layer_norm.default", "normalization"),
        ("aten._native_batch_norm_legit.default", "normalization"),
        ("aten._softmax.default", "softmax"),
        ("aten.mm.default", "matmul"),
        ("aten.linear.default", "matmul"),
        ("aten.convolution.default", "convolution"),
        ("aten.max_pool2d_with_indices.default", "pooling"),
        ("aten.max.dim", "reduction"),
        ("aten.index.Tensor", "gather"),
        ("aten.embedding.default", "embedding"),
        ("aten.cumsum.default", "scan"),
        ("aten.topk.default", "sort"),
        ("aten._scaled_dot_product_flash_attention.default", "attention"),
        ("aten.native_dropout.default", "random"),
        ("aten.normal_.default", "random"),
        ("aten.normal.Tensor_float", "random"),
        ("aten.uniform_.default", "random"),
        ("normalize", "normalization"),
        ("aten.linalg_vector_norm.default", "normalization"),
        ("aten.log2.default", "elementwise"),
        ("aten.exp2.default", "elementwise"),
        ("aten.expm1.default", "elementwise"),
        ("aten.log1p.default", "elementwise"),
        ("aten.masked_fill.Scalar", "elementwise"),
        ("aten.maximum.default", "elementwise"),
        ("aten.logcumsumexp.default", "scan"),
        ("cross_entropy", "loss"),
        ("aten.leaky_relu.default", "elementwise"),
        ("aten.view.default", ""),
        ("aten.detach.default", ""),
    ],
)
def test_operators_have_families(name: str, family: str) -> None:
    assert of_operator(name) == family
    assert not family or family in FAMILIES


def test_families_of_a_task_are_listed_once() -> None:
    assert of_operators(
        ["aten.mm.default", "aten.view.default", "aten.relu.default", "aten.addmm.default"]
    ) == (
        "matmul",
        "elementwise",
    )
