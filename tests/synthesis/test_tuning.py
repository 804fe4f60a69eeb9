"""Parameter search: deterministic, never twice the same, honest about its end."""

from __future__ import annotations

import pytest

from harness.types import Candidate
from kevolve_mcp.errors import UsageError
from kevolve_mcp.synthesis import HistoryRow, next_choice, tuning

from .helpers import TUNABLE, landscape, row

START = Candidate(TUNABLE, "cpp")


def walk(steps: int, seed: int = 3, use_optuna: bool = True) -> list[HistoryRow]:
    history = [row(START, landscape(START.params()))]
    for step in range(steps):
        choice = next_choice(START, history, seed + step, use_optuna=use_optuna)
        history.append(row(choice.candidate, landscape(choice.params), step + 2))
    return history


@pytest.mark.parametrize("use_optuna", [True, False])
def test_every_point_once_then_exhausted(use_optuna: bool) -> None:
    history = walk(23, use_optuna=use_optuna)
    assert len({str(r.params) for r in history}) == 24
    assert max(r.fitness or 0 for r in history) == pytest.approx(2.4)
    with pytest.raises(tuning.TuningExhausted, match="24 combinations"):
        next_choice(START, history, 1, use_optuna=use_optuna)


def test_same_seed_and_history_give_the_same_answer() -> None:
    history = walk(12)
    first, second = (next_choice(START, history, 11) for _ in range(2))
    assert first == second
    assert first.method == "tpe"
    assert first.unseen == 10


def test_the_model_learns_where_optuna_is_there() -> None:
    assert max(r.fitness or 0 for r in walk(14)) >= 2.2


def test_failures_count_as_tried_and_other_structures_do_not() -> None:
    failed = row(START.with_params({**START.params(), "UNROLL": 2}), 0.0)
    other = Candidate(TUNABLE + "# another structure\n", "cpp")
    history = [
        failed,
        *(row(other.with_params({**other.params(), "WIDTH": w}), 1.0) for w in (128, 256)),
    ]
    chosen = [next_choice(START, history, s).params for s in range(20)]
    assert failed.params not in chosen
    assert next_choice(START, history, 0).unseen == 24 - 3


def test_a_digest_in_the_history_is_never_proposed_even_without_parameters() -> None:
    child = next_choice(START, (), 5).candidate
    again = next_choice(START, (HistoryRow("n9", "crashed", candidate=child.digest),), 5).candidate
    assert again.digest != child.digest


def test_fixed_names_keep_their_value() -> None:
    for seed in range(10):
        assert (
            next_choice(START, (), seed, fixed=frozenset({"PASSES", "WIDTH"})).params["WIDTH"]
            == 128
        )
    history = [row(START.with_params({**START.params(), "UNROLL": u}), 1.0) for u in (2, 4, 8)]
    with pytest.raises(tuning.TuningExhausted):
        next_choice(START, history, 0, fixed=frozenset({"PASSES", "WIDTH"}))


def test_strings_booleans_and_floats_are_choices() -> None:
    text = (
        'TUNABLES = {"LEVEL": ["-O2", "-O3"], "FAST": [True, False], "RATIO": [0.5, 1, 1.0]}\n'
        'PARAMS = {"LEVEL": "-O2", "FAST": True, "RATIO": 0.5}\n'
    )
    candidate, history = Candidate(text, "cpp"), []
    for step in range(11):
        history.append(row(next_choice(candidate, history, step).candidate, 1.0 + step))
    with pytest.raises(tuning.TuningExhausted):
        next_choice(candidate, history, 99)


def test_a_huge_space_is_sampled() -> None:
    names = [f"P{i}" for i in range(12)]
    tunables = {name: [1, 2, 3, 4] for name in names}
    text = f"TUNABLES = {tunables}\nPARAMS = {dict.fromkeys(names, 1)}\n"
    assert next_choice(Candidate(text, "cpp"), (), 0).unseen == 4**12 - 2


@pytest.mark.parametrize(
    "text",
    ["x = 1\n", 'TUNABLES = {"A": [1, 2]}\n', 'TUNABLES = {"A": [1, 2]}\nPARAMS = {"B": 1}\n'],
)
def test_a_text_without_parameters_is_taught(text: str) -> None:
    with pytest.raises(UsageError, match=r"TUNABLES|PARAMS") as caught:
        next_choice(Candidate(text, "cpp"), (), 0)
    assert "literals" in caught.value.hint


def test_without_optuna_the_method_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "_optuna", lambda: None)
    assert (
        next_choice(START, walk(8, use_optuna=False), 0).method
        == "random (optuna is not installed)"
    )


def test_the_last_choices_come_first_then_one_change_of_the_best() -> None:
    first = next_choice(START, (), 1)
    assert (first.params, first.method) == ({"UNROLL": 8, "WIDTH": 512, "PASSES": 2}, "corner")
    history = [row(START, 1.0), row(first.candidate, 2.2, 2)]
    second = next_choice(START, history, 2)
    assert (second.params, second.method) == ({"UNROLL": 4, "WIDTH": 512, "PASSES": 2}, "neighbour")
    history.append(row(second.candidate, 2.4, 3))
    assert next_choice(START, history, 3).params == {"UNROLL": 2, "WIDTH": 512, "PASSES": 2}


def test_a_corner_that_fails_leaves_the_descent_at_the_start() -> None:
    failed = row(next_choice(START, (), 1).candidate, 0.0)
    chosen = next_choice(START, [row(START, 1.0), failed], 2)
    assert (chosen.params, chosen.method) == ({"UNROLL": 2, "WIDTH": 128, "PASSES": 1}, "neighbour")


def test_a_choice_that_never_worked_waits_until_nothing_else_is_left() -> None:
    wide = [row(START.with_params({"UNROLL": u, "WIDTH": 256, "PASSES": 1}), 0.0) for u in (1, 2)]
    history = [row(START, 1.0), *wide]
    while True:
        choice = next_choice(START, history, len(history))
        if choice.params["WIDTH"] == 256:
            break
        history.append(row(choice.candidate, landscape(choice.params), len(history) + 1))
    assert len(history) == 3 + 24 - 1 - 8


def test_authors_at_work_at_once_propose_different_points() -> None:
    history = [row(START, 1.0), row(next_choice(START, (), 1).candidate, 2.2, 2)]
    chosen = [str(next_choice(START, history, 2, ahead=others).params) for others in range(4)]
    assert len(set(chosen)) == 4
