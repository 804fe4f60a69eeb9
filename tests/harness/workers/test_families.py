"""Input families keep what a task fixes: shape, dtype, layout and the range of indices."""

from __future__ import annotations

import pytest
import torch

from harness.wire.nesting import tensors_of
from harness.workers import operators
from harness.workers.families import FAMILIES, PLAIN, are_exact, names, vary


def drawn() -> list[object]:
    generator = torch.Generator().manual_seed(5)
    dense = torch.randn(16, 24, generator=generator)
    return [
        dense,
        torch.randint(0, 24, (16,), generator=generator),
        torch.randn(24, 16, generator=generator).T,
        torch.randn(16, 48, generator=generator)[:, ::2],
        torch.randn(1, 24, generator=generator).expand(16, 24),
        torch.randn((), generator=generator),
        torch.randn(8, generator=generator).half(),
        torch.randint(3, 9, (40,), generator=generator),
        torch.arange(0, 50, 5),
        torch.rand(12, generator=generator) > 0.5,
        torch.zeros(0, 4),
        3,
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_keeps_the_form(family: str) -> None:
    plain = drawn()
    for seed in range(20):
        for old, new in zip(plain, vary(plain, family, seed), strict=True):
            if not isinstance(old, torch.Tensor):
                assert new == old
                continue
            assert isinstance(new, torch.Tensor)
            assert (new.shape, new.stride(), new.dtype) == (old.shape, old.stride(), old.dtype)
            if not old.is_floating_point() and old.dtype != torch.bool:
                assert set(new.tolist()) <= set(old.tolist())


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in PLAIN])
def test_a_family_changes_values_and_not_the_original(family: str) -> None:
    plain = drawn()
    kept = [v.clone() for v in plain if isinstance(v, torch.Tensor)]
    found = vary(plain, family, 1)
    assert any(
        not torch.equal(a, b)
        for a, b in zip(plain, found, strict=True)
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    )
    assert all(
        torch.equal(a, b)
        for a, b in zip([v for v in plain if isinstance(v, torch.Tensor)], kept, strict=True)
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_tensors_inside_are_varied_as_others_are(family: str) -> None:
    first, second, *others, number = drawn()
    nested = [{"first": first, "pair": (second, [*others], None)}, number]
    kept = [t.clone() for t in tensors_of(nested)]
    flat, found = vary(drawn(), family, 6), vary(nested, family, 6)
    same = zip(tensors_of(flat), tensors_of(found), strict=True)
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in same)
    assert list(found[0]) == ["first", "pair"]
    assert type(found[0]["pair"]) is tuple
    assert type(found[0]["pair"][1]) is list
    assert found[0]["pair"][2] is None
    assert found[1] == number
    assert all(map(torch.equal, tensors_of(nested), kept))


def test_a_target_inside_names_values_too() -> None:
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn((32, 50), generator=generator).bfloat16()
    target = torch.randint(0, 50, (32,), generator=generator)
    for given in ([logits, {"target": target}], [{"logits": logits, "target": target}]):
        (found, _) = tensors_of(vary(given, "named", 7))
        assert int((found != logits).sum()) == target.numel()


def test_what_no_family_changes_is_not_exact() -> None:
    values, counts = torch.randn(8, 6), torch.randint(0, 9, (8,))
    assert are_exact(vary([values, {"half": values.half()}, counts, 3], "exact", 2))
    assert not are_exact([torch.ones(3), {"half": values.half()}])
    assert not are_exact(vary([values.unfold(0, 4, 1)], "exact", 2))
    assert not are_exact(vary([torch.randn(4, dtype=torch.complex64)], "exact", 2))
    assert are_exact([torch.ones(3, dtype=torch.complex64), torch.ones(2).to(torch.float8_e5m2)])


def test_sorted_integers_stay_as_they_are() -> None:
    for family in FAMILIES:
        assert torch.equal(vary([torch.arange(0, 50, 5)], family, 3)[0], torch.arange(0, 50, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "target"), [((32, 50), (32,)), ((32, 50), (32, 1)), ((4, 50, 3, 2), (4, 3, 2))]
)
def test_a_named_value_has_most_of_its_row(
    shape: tuple[int, ...], target: tuple[int, ...], dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(shape, generator=generator).to(dtype)
    named = torch.randint(0, 50, target, generator=generator)
    found, _ = vary([logits, named], "named", 7)
    wide, index = found.double(), named if named.dim() == logits.dim() else named.unsqueeze(1)
    losses = wide.logsumexp(1, keepdim=True) - wide.gather(1, index)
    assert 0.18 < float(losses.min()) < float(losses.max()) < 0.75
    assert int((found != logits).sum()) == named.numel()


def test_what_names_nothing_of_its_row_changes_nothing() -> None:
    logits = torch.randn(8, 50)
    outside = torch.full((8,), -100)
    assert torch.equal(vary([logits, outside], "named", 7)[0], logits)
    assert torch.equal(vary([logits, torch.zeros(9).long()], "named", 7)[0], logits)


def test_inputs_that_may_name_values_are_known_by_their_forms() -> None:
    assert names([([8, 50], "bfloat16"), ([8], "int64")])
    assert names([([8, 50], "float32"), ([8, 1], "int32")])
    assert not names([([8, 50], "float32"), ([9], "int64")])
    assert not names([([8, 50], "float32"), ([8], "float32")])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(4, 300, 60), (1, 20_000), (500,)])
def test_averages_of_moved_inputs_are_other_ones_in_the_same_range(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    plain = torch.rand(shape, generator=torch.Generator().manual_seed(4)).to(dtype)
    means, spreads = [], []
    for seed in range(20):
        (moved,) = vary([plain], "moved", seed)
        assert plain.min() <= moved.min() <= moved.max() <= plain.max()
        slices = moved.double().reshape(-1, shape[-1])
        means.append(float((slices.mean(1) - 0.5).abs().max()))
        spreads.append(float((slices.std(1) - plain.double().std()).abs().max()))
    assert sorted(means)[5] > 0.03
    assert sorted(spreads)[5] > 0.03


def test_slices_are_moved_and_not_all_of_them_together() -> None:
    plain = torch.randn(64, 80, generator=torch.Generator().manual_seed(4))
    for seed in range(200):
        (moved,) = vary([plain], "moved", seed)
        assert abs(float(moved.mean())) < 1.5  # of a range from -4 to 4


def test_overlapping_windows_stay_as_they_are() -> None:
    windows = torch.randn(10).unfold(0, 4, 1)
    assert vary([windows], "scaled", 1)[0] is windows


@pytest.mark.parametrize(
    ("names", "exact"),
    [
        (["aten.relu.default", "aten.view.default"], True),
        (["aten.index_select.default"], True),
        (["aten.relu.default", "aten.add.Tensor"], False),
        (["aten.mean.dim"], False),
    ],
)
def test_operators_that_round_nothing_are_known(names: list[str], exact: bool) -> None:
    assert operators.is_exact(names) == exact


def test_attention_over_shared_heads_is_counted() -> None:
    query, key = torch.empty(2, 8, 16, 4, device="meta"), torch.empty(2, 2, 16, 4, device="meta")
    attend = torch.ops.aten._scaled_dot_product_flash_attention
    _, flops = operators.call_counted(lambda given: attend(*given, 0.0, True)[0], [query, key, key])
    assert flops == 2 * 2 * 8 * 16 * 16 * (4 + 4)
