"""What a request may ask for: nobody sends the judge what it cannot measure."""

from __future__ import annotations

import math
from typing import Any

import pytest

from harness.types import (
    MOST_EFFORT,
    Candidate,
    CodecError,
    EvaluationRequest,
    Policy,
    Samples,
    from_json,
    to_json,
)


def request(**given: Any) -> EvaluationRequest:
    return EvaluationRequest(Candidate("x", "cpp"), **given)


def of_rounds(*processes: tuple[tuple[float, float], ...]) -> Samples:
    return Samples({"default": {"eager": processes}})


@pytest.mark.parametrize(
    "given",
    [
        {"effort": MOST_EFFORT, "best": 0.0},
        {"effort": 1, "best": 3},
        {"earlier": of_rounds(((1.5, 1e6),), ((2, 1),))},
        {"earlier": Samples({"default": {"eager": ()}}, 9, {"default": {"eager": 5.0}})},
        {"policy": Policy(memory_gib=0.001)},
    ],
    ids=str,
)
def test_what_can_be_measured_is_accepted(given: dict[str, Any]) -> None:
    found = request(**given)
    assert from_json(EvaluationRequest, to_json(found)) == found


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        *(("effort", e, "1 to 8 are accepted") for e in (0.99, -1.0, 8.1, 1e6, math.inf, math.nan)),
        *(("best", b, "is accepted") for b in (-0.1, math.inf, math.nan)),
        ("earlier", of_rounds(()), "a process has no rounds"),
        *(
            ("earlier", of_rounds(((1.0, us),)), "the accepted range")
            for us in (0.0, -1.0, 1e-300, 1e300, math.inf, math.nan)
        ),
        ("earlier", Samples(baselines=-5), "-5 baselines"),
        ("earlier", Samples(baselines=10**400), "baselines; 0 to"),
        *(
            ("earlier", Samples(open_us={"default": {"eager": us}}), "open_us")
            for us in (-1.0, math.inf, math.nan)
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(field: str, value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        request(**{field: value})
    with pytest.raises(CodecError, match=said):
        from_json(EvaluationRequest, {**to_json(request()), field: to_json(value)})


@pytest.mark.parametrize("limit", [0, -1.0, math.inf, math.nan])
def test_a_limit_of_memory_is_positive_and_finite(limit: float) -> None:
    with pytest.raises(ValueError, match="memory_gib must be positive"):
        Policy(memory_gib=limit)
    with pytest.raises(CodecError, match=r"^Policy: memory_gib must be positive"):
        from_json(Policy, {"memory_gib": limit})


@pytest.mark.parametrize("pair", [[], [1.0], [1.0, 2.0, 3.0]])
def test_a_pair_has_two(pair: list[float]) -> None:
    with pytest.raises(CodecError, match="expected a list of 2"):
        from_json(Samples, {"rounds": {"default": {"eager": [[pair]]}}})


def test_a_whole_number_beyond_every_float_does_not_fit() -> None:
    with pytest.raises(CodecError, match=r"^EvaluationRequest\.best: int too large"):
        from_json(EvaluationRequest, {**to_json(request()), "best": 10**400})
