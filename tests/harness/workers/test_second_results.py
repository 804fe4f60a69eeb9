"""Second results show what a reference in high precision leaves uncertain."""

from __future__ import annotations

from typing import Any

import torch

from harness.workers import high_precision, second_results


def kind(
    call: Any, given: list[torch.Tensor], *, pointwise: bool = False, solving: bool = False
) -> str:
    return second_results.kind_for(
        call, high_precision.to_double(given), call(given), pointwise=pointwise, solving=solving
    )


def product(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    x, y = (t.to(torch.bfloat16) for t in inputs)
    return [(x @ y).float()]


def test_a_cast_to_fewer_bits_within_is_undone() -> None:
    given = [torch.randn(16, 16), torch.randn(16, 16)]
    assert kind(product, given) == "wide"
    (found,) = second_results.compute("wide", product, high_precision.to_double(given), 1)
    torch.testing.assert_close(found.double(), given[0].double() @ given[1].double())


def test_what_needs_no_second_result_has_none() -> None:
    given = [torch.randn(16, 16)]
    # the output's own rounding, a format of eight bits, and a cast to a wider dtype
    assert kind(lambda inputs: [inputs[0].sin().to(torch.bfloat16)], given) == ""
    assert kind(lambda inputs: [inputs[0].to(torch.float8_e4m3fn).float()], given) == ""
    assert kind(lambda inputs: [inputs[0].float().sin()], [given[0].bfloat16()]) == ""


def test_double_precision_is_moved_by_a_rounding() -> None:
    given = [torch.randn(8, 8, dtype=torch.float64)]
    call = lambda inputs: [torch.linalg.inv(inputs[0])]  # noqa: E731
    assert kind(call, given) == "moved by norm"
    assert kind(call, given, pointwise=True) == "moved"
    (found,) = second_results.compute("moved by norm", call, given, 1)
    off = float((found - call(given)[0]).norm() / found.norm())
    assert 1e-17 < off < 1e-9


def test_the_worst_conditioned_of_many_systems_shows_what_is_uncertain() -> None:
    given = [torch.randn(4096, 3, 3) + 2 * torch.eye(3)]

    def call(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.linalg.inv(inputs[0])]

    assert second_results.solves(["aten.linalg_inv_ex.default"])
    assert not second_results.solves(["aten.mm.default", "aten.native_layer_norm.default"])
    assert kind(call, given, solving=True) == "moved in single"
    precise = call(high_precision.to_double(given))[0]
    (second,) = second_results.compute("moved in single", call, high_precision.to_double(given), 1)
    other = torch.linalg.inv(given[0].mT).mT.double()
    # a limit is four times what this shows
    assert 4 * float((second - precise).norm()) > float((other - precise).norm())


def test_a_cast_counts_where_systems_are_solved_too() -> None:
    def call(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        x = torch.linalg.solve(inputs[0], inputs[1])
        return [(x.bfloat16().to(x.dtype) @ inputs[1])]

    given = [torch.randn(8, 8) + 9 * torch.eye(8), torch.randn(8, 8)]
    assert kind(call, given, solving=True) == "wide"


def test_numbers_are_moved_up_or_down_by_a_rounding() -> None:
    value, counts = torch.randn(64, dtype=torch.float64), torch.arange(4)
    moved = second_results.moved_apart({"value": value, "counts": counts}, 2.0**-24, 3)
    by = (moved["value"] / value - 1) * 2.0**24
    assert set(by.round().tolist()) == {-1.0, 1.0}
    assert torch.equal(moved["counts"], counts)
    again = second_results.moved_apart({"value": value, "counts": counts}, 2.0**-24, 3)
    assert torch.equal(moved["value"], again["value"])
