"""Input families keep what a task fixes: shape, dtype, layout and the range of indices."""

from __future__ import annotations

import pytest
import torch

from harness.wire.nesting import tensors_of
from harness.workers import operators
from harness.workers.families import FAMILIES, PLAIN, are_exact, names, vary, without_effect


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
        torch.randn(16, 24, generator=generator).to(torch.float8_e4m3fn),
        torch.randn(5, 9, dtype=torch.complex64, generator=generator).conj(),
        torch.zeros(0, 4),
        3,
    ]


def equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """NaN equals NaN; 8-bit floats and complex numbers have no such comparison."""
    one, other = (
        torch.view_as_real(t.resolve_conj()) if t.is_complex() else t.double() for t in (one, other)
    )
    return bool(torch.equal(one.nan_to_num(), other.nan_to_num()))


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
            if not old.dtype.is_floating_point and not old.is_complex() and old.dtype != torch.bool:
                assert set(new.tolist()) <= set(old.tolist())


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in PLAIN])
def test_a_family_changes_values_and_not_the_original(family: str) -> None:
    plain = drawn()
    kept = [v.clone() for v in plain if isinstance(v, torch.Tensor)]
    found = vary(plain, family, 1)
    assert any(
        not equal(a, b)
        for a, b in zip(plain, found, strict=True)
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    )
    assert all(
        equal(a, b)
        for a, b in zip([v for v in plain if isinstance(v, torch.Tensor)], kept, strict=True)
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_tensors_inside_are_varied_as_others_are(family: str) -> None:
    first, second, *others, number = drawn()
    nested = [{"first": first, "pair": (second, [*others], None)}, number]
    kept = [t.clone() for t in tensors_of(nested)]
    flat, found = vary(drawn(), family, 6), vary(nested, family, 6)
    same = zip(tensors_of(flat), tensors_of(found), strict=True)
    assert all(equal(a, b) for a, b in same)
    assert list(found[0]) == ["first", "pair"]
    assert type(found[0]["pair"]) is tuple
    assert type(found[0]["pair"][1]) is list
    assert found[0]["pair"][2] is None
    assert found[1] == number
    assert all(map(equal, tensors_of(nested), kept))


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
    assert not are_exact([values.unfold(0, 4, 1)])
    assert not are_exact([torch.randn(4, dtype=torch.complex64)])
    assert are_exact([torch.ones(3, dtype=torch.complex64), torch.ones(2).to(torch.float8_e5m2)])


def test_sorted_integers_stay_as_they_are() -> None:
    for family in FAMILIES:
        assert torch.equal(vary([torch.arange(0, 50, 5)], family, 3)[0], torch.arange(0, 50, 5))


@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "special"])
def test_what_is_sorted_stays_sorted(family: str) -> None:
    generator = torch.Generator().manual_seed(4)
    knots = torch.randn(63, generator=generator).sort().values
    falling = torch.rand(8, 30, generator=generator).half().sort(-1, descending=True).values
    table = torch.randint(0, 1000, (16, 40), generator=generator).sort(-1).values
    for seed in range(10):
        found = vary([knots, falling, table], family, seed)
        assert bool((found[0].diff() >= 0).all())
        assert bool((found[1].float().diff(dim=-1) <= 0).all())
        assert torch.equal(found[2], table)


@pytest.mark.parametrize("family", FAMILIES)
def test_integers_that_occur_once_still_do(family: str) -> None:
    generator = torch.Generator().manual_seed(4)
    slots = torch.randperm(2048, generator=generator)[:512]
    of_rows = torch.stack([torch.randperm(100, generator=generator)[:16] for _ in range(50)])
    for seed in range(10):
        found = vary([slots, of_rows], family, seed)
        assert len({*found[0].tolist()}) == len(slots)
        assert all(len({*row}) == 16 for row in found[1].tolist())


def test_integers_that_differ_by_chance_may_repeat() -> None:
    tokens = torch.randint(0, 30_000, (2, 400), generator=torch.Generator().manual_seed(5))
    assert 1 < len(vary([tokens], "ties", 1)[0].unique()) <= 4


@pytest.mark.parametrize("family", ["sparse", "clustered"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.bool, torch.float8_e4m3fn])
def test_a_sample_of_few_bits_has_another_average(family: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(4)
    drawn = (torch.rand(8, 65536, generator=generator) * (2 if dtype == torch.bool else 100)).long()
    drawn = drawn.to(torch.float32).to(dtype)
    errors = []
    for seed in range(10):
        (found,) = vary([drawn], family, seed)
        whole = found.double()
        sample = whole.view(8, -1, 64)[:, ::4].flatten(1)
        errors.append(float((sample.mean(1) / whole.mean(1).clamp(min=1e-9) - 1).abs().max()))
    assert sorted(errors)[3] > 0.02


def test_wide_integers_in_blocks_are_the_same_ones() -> None:
    drawn = torch.randint(0, 5000, (4, 9000), generator=torch.Generator().manual_seed(4))
    (found,) = vary([drawn], "clustered", 3)
    assert torch.equal(found.flatten().sort().values, drawn.flatten().sort().values)
    apart = [float(t.double().diff().abs().mean()) for t in (found, drawn)]
    assert apart[0] < apart[1] / 4


def test_families_that_change_nothing_are_known() -> None:
    def idle(*leaves: tuple[list[int], str]) -> set[str]:
        return without_effect([(s, torch.empty(s).stride(), dtype) for s, dtype in leaves])

    assert idle(([8, 4], "float32")) == {"sparse", "clustered", "named"}
    assert idle(([8, 4], "complex64")) == {"sparse", "clustered", "named"}
    idle_for_integers = {"uneven", "raised", "moved", "ends", "above", "below", "gathered", "named"}
    assert idle(([8, 4], "uint8")) == idle_for_integers
    assert idle(([8, 4], "int64"), ([8], "float32")) == {"sparse", "named"}
    assert idle(([8, 4], "float32"), ([8], "int64")) == {"sparse"}
    assert idle(([8, 4], "float8_e5m2")) == {"named"}
    assert without_effect([([8, 4], [0, 1], "float32")]) == {"sparse", "clustered", "named"}
    assert without_effect([([8, 4], [1, 1], "float32")]) == {"sparse", "clustered", "named"}


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


def test_windows_still_share_what_they_look_at() -> None:
    signal = torch.randn(3, 20, generator=torch.Generator().manual_seed(4))
    windows = signal.unfold(1, 8, 4)
    (found,) = vary([windows], "scaled", 1)
    assert (found.shape, found.stride()) == (windows.shape, windows.stride())
    assert torch.equal(found[:, 1:, :4], found[:, :-1, 4:])
    assert float((found / windows).std()) < 1e-5
    assert float(found.std()) > 2 * float(windows.std())


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


def test_values_at_the_ends_stay_within_their_range() -> None:
    given = torch.sigmoid(torch.randn(16, 4096))
    few = []
    for seed in range(24):
        values = vary([given], "ends", seed)[0]
        assert float(values.min()) >= float(given.min()) - 1e-6
        assert float(values.max()) <= float(given.max()) + 1e-6
        far = (values - values.median()).abs() > 0.5
        few.append(int(far.sum()))
    assert 1 <= min(few) < 8 < max(few) <= 64


def test_a_few_values_above_decide_a_sum_of_a_bounded_function() -> None:
    given = torch.randn(524288).bfloat16()
    off = []
    for seed in range(32):
        results = torch.sigmoid(vary([given], "below", seed)[0].double())
        off.append(abs(float(results[::8].mean() / results.mean()) - 1))
    assert sorted(off)[8] > 0.05
    results = torch.sigmoid(given.double())
    assert abs(float(results[::8].mean() / results.mean()) - 1) < 0.01


def test_gathered_values_keep_the_sums_of_rows() -> None:
    given = torch.softmax(torch.randn(16, 4096), -1)
    for seed in range(24):
        values = vary([given], "gathered", seed)[0]
        assert torch.allclose(values.sum(-1), torch.ones(16))
        assert float(values.min()) >= 0
        largest = values.topk(4, -1).values.sum(-1)
        assert bool((largest > 0.45).all())
        scalar = torch.tensor(3.0)
        assert vary([scalar], "gathered", seed)[0] == scalar


def test_a_stride_misses_what_lies_at_other_places_of_each_block() -> None:
    given = torch.randn(524288)
    off = []
    for seed in range(64):
        values = vary([given], "moved", seed)[0]
        off.append(abs(float(values[::8].square().mean() / values.square().mean()) - 1))
    assert sum(each > 0.03 for each in off) >= 8  # a sample of plain values is off by 0.006


def test_blocks_of_moved_values_differ() -> None:
    given = torch.randn(4, 65536, generator=torch.Generator().manual_seed(0))
    off = []
    for seed in range(48):
        blocks = vary([given], "moved", seed)[0].view(4, -1, 256)
        off.append(float((blocks[:, ::4].mean((1, 2)) - blocks.mean((1, 2))).abs().max()))
    assert sorted(off)[24] > 0.02  # a sample of plain values is off by 0.004
    plain = given.view(4, -1, 256)
    assert float((plain[:, ::4].mean((1, 2)) - plain.mean((1, 2))).abs().max()) < 0.02


def test_sorted_values_get_steps() -> None:
    given = torch.randn(4, 5000).sort(-1).values
    for seed in range(24):
        for family in ("uneven", "raised", "moved", "ends", "above", "below", "gathered"):
            assert bool((vary([given], family, seed)[0].diff(dim=-1) >= 0).all()), family
        assert vary([given], "moved", seed)[0].unique().numel() <= 64
    raised = [int((vary([given], "raised", seed)[0][0] > 20).sum()) for seed in range(24)]
    assert min(raised) < 10 < 500 < max(raised)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"special"}))
def test_missing_values_stay_missing_and_say_nothing_of_the_range(family: str) -> None:
    given = torch.randn(8, 512)
    given[:, 7], given[3] = float("nan"), -float("inf")
    values = vary([given], family, 5)[0]
    assert torch.equal(values.isfinite(), given.isfinite())
    assert float(values[given.isfinite()].abs().max()) < 1e5


@pytest.mark.parametrize("family", ["moved", "ends"])
@pytest.mark.parametrize("in_order", [False, True])
def test_large_numbers_in_double_keep_their_range(family: str, in_order: bool) -> None:
    given = 1.7e9 + 60 * torch.rand(2048, dtype=torch.float64)
    given = given.sort().values if in_order else given
    for seed in range(24):
        values = vary([given], family, seed)[0]
        assert float(values.min()) >= float(given.min())
        assert float(values.max()) <= float(given.max())
        assert values.unique().numel() > 1


def test_missing_complex_values_say_nothing_of_the_range() -> None:
    given = torch.randn(64, 64, dtype=torch.complex64)
    given[0, 0] = float("nan")
    for family in ("moved", "uneven", "raised"):
        assert int((~vary([given], family, 3)[0].isfinite()).sum()) == 1
