"""Other values of parameters: plausible, known by a seed alone, and of other sizes where they are
grown."""

from __future__ import annotations

import pytest
import torch

from harness.workers import parameter_states
from harness.workers.parameter_states import CHANGES, KINDS, Kind

BEFORE = {
    "weight": 0.1 * torch.randn(64, 32, generator=torch.Generator().manual_seed(1)),
    "bias": torch.zeros(64),
    "gamma": torch.full((64,), 1e-6),
    "norm.weight": torch.ones(64),
    "temperature": torch.tensor(0.07),
    "running_var": torch.ones(64),
    "exp_avg_sq": torch.zeros(64),
    "log_var": torch.linspace(1, -1, 9),
    "mask": torch.tensor([0.0, -torch.inf, 0.5, 1.0]),
    "rotation": torch.randn(8, dtype=torch.complex64, generator=torch.Generator().manual_seed(2)),
    "order": torch.tensor([3, 1, 2, 0]),
    "table": torch.arange(9),
    "causal": torch.ones(6, 6, dtype=torch.bool).tril(),
    "levels": torch.linspace(-1, 1, 9),
    "double": torch.tensor([1e30, -2.0, 0.5], dtype=torch.float64),
    "large": torch.tensor([3.2e38, -1.0], dtype=torch.bfloat16),
    "half": torch.randn(16, generator=torch.Generator().manual_seed(3)).half(),
}


def found(kind: Kind) -> dict[str, torch.Tensor]:
    values = parameter_states.values(BEFORE, parameter_states.draw(kind), "cpu")
    return dict(zip(BEFORE, values, strict=True))


def test_three_states_change_first_a_block_then_some_then_the_rest() -> None:
    before = {name: torch.randn(64, 8) for name in "ab"}
    before["c"] = torch.randn(64, 8, dtype=torch.complex64)
    met, starts = set(), set()
    for _ in range(20):
        seeds = parameter_states.draw_changes()
        assert tuple(map(parameter_states.kind_of, seeds)) == parameter_states.CHANGES
        block, some, whole = (
            dict(zip(before, parameter_states.values(before, seed, "cpu"), strict=True))
            for seed in seeds
        )
        for name, old in before.items():
            places = (block[name] != old).view(-1).nonzero().view(-1)
            assert 128 <= len(places) <= 256
            assert int(places[-1] - places[0]) == len(places) - 1
            assert torch.equal(block[name].view(-1)[places], whole[name].view(-1)[places])
            assert bool((whole[name] != old).all())
            starts.add(int(places[0]))
        changed = [name for name in before if torch.equal(some[name], whole[name])]
        left = [name for name in before if torch.equal(some[name], block[name])]
        assert sorted([*changed, *left]) == sorted(before)
        assert changed
        assert left
        met.add(tuple(changed))
    assert len(met) > 2
    assert len(starts) > 20


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_keeps_forms_and_what_must_stay(kind: Kind) -> None:
    for _ in range(20):
        for name, value in found(kind).items():
            before = BEFORE[name]
            assert (value.shape, value.dtype) == (before.shape, before.dtype)
            assert torch.equal(torch.isfinite(value), torch.isfinite(before))
            same = torch.equal(value, before)
            assert (name == "table") == same or name == "order" or kind in CHANGES[:2]
        values = found(kind)
        assert bool((values["levels"].diff() >= 0).all())
        assert values["running_var"].min() > 0
        assert values["exp_avg_sq"].min() >= 0
        assert kind == "moved" or values["log_var"].min() < 0
        assert sorted(values["order"].tolist()) == [0, 1, 2, 3]


def test_masks_stay_and_averages_and_parameters_do_not() -> None:
    model = torch.nn.BatchNorm1d(4)
    model.register_buffer("causal", torch.tril(torch.ones(4, 4)))
    model.register_buffer("seen", torch.eye(4, dtype=torch.bool))
    model.register_parameter("gate", torch.nn.Parameter(torch.tensor([0.0, 1.0])))
    before = {
        name: value.detach() for name, value in [*model.named_parameters(), *model.named_buffers()]
    }
    kept = parameter_states.masks(before, model)
    assert kept == {"causal", "seen"}
    values = parameter_states.values(before, parameter_states.draw("grown"), "cpu", kept)
    same = [name for name, value in zip(before, values, strict=True) if value is before[name]]
    assert same == ["num_batches_tracked", "causal", "seen"]


def test_a_seed_gives_the_same_values_again() -> None:
    seed = parameter_states.draw("grown")
    first, again = (parameter_states.values(BEFORE, seed, "cpu") for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert seed > 0


def test_changed_values_stay_near_and_grown_ones_do_not() -> None:
    near, far = found("changed"), found("grown")
    for name, least in (("weight", 1.8), ("half", 1.5)):
        before = float(BEFORE[name].float().std())
        assert 0.7 < float(near[name].float().std()) / before < 1.5
        assert least < float(far[name].float().std()) / before < 11
    assert near["gamma"].abs().max() < 1e-5
    for name in ("gamma", "bias"):
        assert 0.2 < float(far[name].std()) < 1
    assert 0.3 < float(far["norm.weight"].mean()) < 3


def test_of_partly_grown_ones_some_stay_near() -> None:
    grown = [found("partly grown")["gamma"].abs().max() > 0.1 for _ in range(60)]
    assert 5 < sum(grown) < 40


def test_uneven_and_moved_ones_have_other_averages() -> None:
    changed = float(found("changed")["weight"].abs().max())
    assert float(found("raised")["weight"].abs().max()) > 5 * changed
    assert float(found("uneven")["weight"].abs().max()) > 500 * changed
    assert float(found("moved")["weight"].abs().max()) < 3 * changed
    # of 400 moved states none was below 0.17, of 200 changed ones none above 0.073
    assert min(_largest_mean("moved") for _ in range(5)) > 0.12
    assert max(_largest_mean("changed") for _ in range(5)) < 0.12


def _largest_mean(kind: Kind) -> float:
    """The largest average of a slice of the weight along either axis."""
    weight = found(kind)["weight"]
    return max(float(weight.mean(axis).abs().max()) for axis in (0, 1))


def test_vectors_beside_matrices_and_masks_do_not_become_uneven() -> None:
    before = {
        "mask": torch.ones(1024, 1024).tril(),
        "weight": torch.randn(64, 64),
        "scale": torch.ones(64),
    }
    seeds = [parameter_states.draw("uneven") for _ in range(10)]
    found = [parameter_states.values(before, seed, "cpu", kept={"mask"}) for seed in seeds]
    assert max(float(each[1].abs().max()) for each in found) > 100
    assert max(float(each[2].abs().max()) for each in found) < 10
    alone = [parameter_states.values({"scale": torch.ones(64)}, seed, "cpu") for seed in seeds]
    assert max(float(each[0].abs().max()) for each in alone) > 100


def test_what_calls_update_gets_other_values_but_for_masks() -> None:
    one, again, other = (parameter_states.renewed(BEFORE, seed) for seed in (12, 12, 18))
    assert list(one) == list(BEFORE)
    for name, value in one.items():
        assert torch.equal(value, again[name]) or not bool(value.isfinite().all())
    assert torch.equal(one["causal"], BEFORE["causal"])
    for name in ("weight", "running_var", "exp_avg_sq", "half"):
        assert not torch.equal(one[name], BEFORE[name])
        assert not torch.equal(one[name], other[name])
