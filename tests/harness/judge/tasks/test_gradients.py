"""Tasks with gradients: the upstream gradient is one that only the inputs of the call tell."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness.types import Candidate, Evaluation, EvaluationRequest, Policy
from harness.workers import families
from tests.harness.conftest import Bench

TASK = """
import torch
import torch.nn as nn

GRADIENTS = True


class Model(nn.Module):
    def forward(self, x, y):
        product = x * y
        return product, product.argmax(dim=1), product.square().mean()


def get_inputs():
    return [torch.randn(24, 40), torch.randn(24, 40)]
"""

RIGHT = """
import torch
import torch.nn as nn


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        product = x * y
        ctx.save_for_backward(x, y, product)
        index = product.argmax(dim=1)
        ctx.mark_non_differentiable(index)
        return product, index, product.square().mean()

    @staticmethod
    def backward(ctx, given, none, loss):
        x, y, product = ctx.saved_tensors
        total = given + loss * 2 * product / product.numel()
        return total * y, total * x


class ModelNew(nn.Module):
    def forward(self, x, y):
        return Product.apply(x, y)
"""
BACK = "        x, y, product = ctx.saved_tensors\n"
LAST = "        return Product.apply(x, y)\n"


@pytest.fixture(scope="module")
def judged(bench: Bench) -> Callable[[str], Evaluation]:
    task = bench.run(bench.executor.open_task(TASK, "", "cpu", timed=False))

    def judge(source: str) -> Evaluation:
        request = EvaluationRequest(
            Candidate(source, "cpp"), "check", "verify", Policy(library_calls="allow")
        )
        return bench.run(bench.executor.evaluate(task, request, "cpu"))

    return judge


@pytest.mark.parametrize(
    ("old", "new", "signal"),
    [
        (BACK, BACK, ""),
        (
            BACK,
            f"{BACK}        given = torch.linspace(-1, 1, x.numel()).view_as(x)\n",
            "wrong.gradients",
        ),
        (BACK, f"{BACK}        given = torch.ones_like(x)\n", "wrong.gradients"),
        (BACK, f"{BACK}        given = given.sign()\n", "wrong.gradients"),
        (BACK, f"{BACK}        loss = loss.sign()\n", "wrong.gradients"),
        (
            LAST,
            "        a, b, c = Product.apply(x, y)\n        return a, b, c.detach()\n",
            "wrong.gradients",
        ),
        (
            LAST,
            "        a, b, c = Product.apply(x, y)\n        return a.detach(), b, c.detach()\n",
            "wrong.structure",
        ),
        (LAST, "        return Product.apply(x, y)[:2]\n", "wrong.structure"),
        (
            LAST,
            "        a, b, c = Product.apply(x, y)\n        return a[:4], b, c\n",
            "wrong.shape",
        ),
        (
            LAST,
            "        a, b, c = Product.apply(x, y)\n        return a.double(), b, c\n",
            "wrong.dtype",
        ),
        (BACK, f"{BACK}        given.mul_(2)\n", "crash.segmentation_fault"),
    ],
    ids=[
        "right",
        "linspace",
        "ones",
        "signs",
        "a loss's sign",
        "one detached",
        "all detached",
        "too few",
        "shape",
        "dtype",
        "written",
    ],
)
def test_a_backward_has_to_use_the_gradient_that_it_is_given(
    judged: Callable[[str], Evaluation], old: str, new: str, signal: str
) -> None:
    found = judged(RIGHT.replace(old, new))
    assert signal in [s.name for s in found.signals] if signal else found.status == "correct", (
        found.message
    )


def test_upstream_gradients_follow_from_the_seed_and_never_vanish() -> None:
    outputs = [([64, 8], torch.float32), ([], torch.float16), ([5], torch.complex64)]
    one, same, other = (families.upstream(outputs, seed) for seed in (3, 3, 4))
    assert [(list(t.shape), t.dtype) for t in one] == outputs
    for a, b, c in zip(one, same, other, strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
        assert float(a.abs().min()) >= 0.5
