"""What is to be seen of a product: of one that is left out, skipped, or of another draw."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from harness.workers import model_calls, replaced_products


def errors(call: Any, *inputs: torch.Tensor) -> list[list[list[float]]]:
    """The errors of each way to replace products, and there of each product."""
    given = [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]
    others = [torch.randn_like(t) if t.is_floating_point() else t for t in inputs]
    found = replaced_products.errors(call, given, call(given), lambda: others)
    return [found[way :: replaced_products.WAYS] for way in range(replaced_products.WAYS)]


def test_a_small_step_hardly_shows_its_last_product() -> None:
    def call(x: list[torch.Tensor]) -> list[torch.Tensor]:
        h = torch.tanh(x[0])
        return [h + 4e-3 * (torch.softmax(h @ h.T, -1) @ h), h]

    left_out, skipped, other = errors(call, torch.randn(64, 64))
    for way in (left_out, other):
        assert 1e-4 < way[1][0] < 1e-2
        assert way[1][1] == 0.0  # no effect at all
    assert 0 <= skipped[1][0] < 1e-2


def test_a_skipped_step_leaves_a_multiple_of_what_it_starts_from() -> None:
    turn = 2 * torch.eye(64, dtype=torch.float64)
    turn[0, 1] = 0.01
    left_out, skipped, other = errors(lambda x: [x[0] @ turn], torch.randn(64, 64))
    assert left_out[0][0] >= 1.0
    assert 0 < skipped[0][0] < 1e-2
    assert other[0][0] > 0.5
    assert errors(lambda x: [x[0] @ x[1]], torch.randn(64, 32), torch.randn(32, 8))[1] == [[]]


@pytest.mark.parametrize("in_place", [False, True])
def test_what_an_operator_adds_to_a_product_stays(in_place: bool) -> None:
    def call(x: list[torch.Tensor]) -> list[torch.Tensor]:
        step = 1e-4 * x[0]
        return [x[0].clone().addmm_(step, x[0]) if in_place else torch.addmm(x[0], step, x[0])]

    for way in errors(call, torch.randn(64, 64)):
        assert 0 < way[0][0] < 1e-2


def test_operations_of_a_convolution_depend_on_its_groups() -> None:
    def call(x: list[torch.Tensor]) -> list[torch.Tensor]:
        y = F.conv1d(x[0], x[1], padding=1, groups=512)  # 1/171 of what follows
        return [torch.einsum("bct,cd->bdt", y, x[2])]

    left_out, _, _ = errors(
        call, torch.randn(1, 512, 16), torch.randn(512, 1, 3), torch.randn(512, 512)
    )
    assert [bool(each) for each in left_out] == [False, True]


def test_what_is_no_product_is_not_replaced() -> None:
    given = torch.randn(64, 64)
    assert errors(lambda x: [torch.softmax(x[0], -1) + 1e-3 * x[0].mean()], given) == [[]] * 3


def test_few_operations_are_left_and_the_last_of_equal_ones_come_first() -> None:
    def call(x: list[torch.Tensor]) -> list[torch.Tensor]:
        y = x[0]
        for _ in range(replaced_products.MOST + 2):
            y = y @ x[0] / 8
        return [y + y[:, :1] @ y[:1]]

    left_out, _, _ = errors(call, torch.randn(64, 64))
    assert [bool(each) for each in left_out] == [False] * 2 + [True] * replaced_products.MOST + [
        False
    ]


@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        (lambda x: torch.addmm(x[0], x[0], x[0]), [(32, 32)]),
        (lambda x: torch.baddbmm(x[0], x[0], x[0]), [(4, 16, 16)]),
        (lambda x: torch.addbmm(x[1], x[0], x[0]), [(4, 16, 16), (16, 16)]),
        (lambda x: x[0] @ x[1], [(64, 64), (64,)]),
        (lambda x: torch.addmv(x[1], x[0], x[1]), [(64, 64), (64,)]),
        (lambda x: torch.einsum("bij,bkj->bik", x[0], x[0]), [(4, 16, 16)]),
        (lambda x: F.linear(x[0], x[1]), [(2, 16, 32), (8, 32)]),
        (lambda x: F.conv1d(x[0], x[1]), [(2, 8, 64), (8, 8, 3)]),
        (lambda x: F.conv_transpose2d(x[0], x[1]), [(2, 8, 8, 8), (8, 4, 3, 3)]),
        (lambda x: F.scaled_dot_product_attention(*x), [(1, 2, 64, 16)] * 3),
        (lambda x: x[0].clone().addmm_(x[0], x[0]), [(32, 32)]),
    ],
)
def test_products_of_every_form_are_replaced(call: Any, shapes: list[tuple[int, ...]]) -> None:
    left_out, _, other = errors(lambda x: [call(x)], *map(torch.randn, shapes))
    assert left_out[-1][0] > 0.1
    assert other[-1][0] > 0.1


def test_products_of_gradients_are_replaced() -> None:
    weight = torch.nn.Parameter(torch.randn(8, 64, dtype=torch.float64))

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.linear(x, self.weight)

    call = model_calls.forward(Layer(), [0])
    left_out, _, _ = errors(call, torch.randn(32, 64), torch.randn(32, 8))
    assert len(left_out) == 3
    shown = [[number for number, error in enumerate(each) if error] for each in left_out]
    assert sorted(shown) == [[0], [1], [2]]


def test_a_reference_that_fails_in_another_draw_is_not_replaced_by_it() -> None:
    given = [torch.randn(64, 64).double()]

    def call(x: Any) -> list[torch.Tensor]:
        return [x[0] @ x[0]]

    def fail() -> Any:
        raise MemoryError

    left_out, _, other = replaced_products.errors(call, given, call(given), fail)
    assert left_out == [1.0]
    assert other == []
