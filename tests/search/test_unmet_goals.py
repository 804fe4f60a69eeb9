"""Where a package falls short, in words."""

from __future__ import annotations

from dataclasses import replace

from harness.types import CaseResult, Goal
from kevolve_mcp.search import unmet_goals

FAST = CaseResult(
    "large",
    correct=True,
    speedup=2.2,
    verdict="faster",
    baseline="compile",
    latency_us=40.0,
    roofline_fraction=0.8,
)
SMALL = replace(FAST, name="small", protected=True, baseline="eager")


def test_nothing_to_confess() -> None:
    for goal in ("best", "speedup:2", "latency_us:50", "roofline:0.7"):
        assert unmet_goals(Goal.parse(goal), (FAST, SMALL), (FAST, SMALL), "cpu") == ()


def test_a_goal_that_only_the_kernel_alone_reached() -> None:
    called = (replace(FAST, speedup=1.5, latency_us=60.0, roofline_fraction=0.5),)
    for goal, figure in (
        ("speedup:2", "1.5x"),
        ("latency_us:50", "60 us"),
        ("roofline:0.7", "50%"),
    ):
        (text,) = unmet_goals(Goal.parse(goal), called, (FAST,), "cpu")
        assert goal in text
        assert figure in text
        assert "although the kernel alone reached it" in text
        assert "although" not in unmet_goals(Goal.parse(goal), called, called, "cpu")[0]


def test_a_loss_and_a_protected_case_are_named() -> None:
    slower = replace(SMALL, speedup=0.7, verdict="slower")
    loss, case = unmet_goals(Goal(), (slower,), (SMALL,), "cpu")
    assert "slower than the strongest baselines: 0.70x" in loss
    assert (
        "protected case small is slower as called: 0.70x over eager; the kernel alone: 2.20x"
        in case
    )


def test_a_win_that_finding_the_kernel_takes_is_named_with_what_helps() -> None:
    fast, eaten = (
        replace(SMALL, speedup=1.3, verdict="faster"),
        replace(SMALL, speedup=1.05, verdict="inconclusive", dispatch_us=4.0),
    )
    (text,) = unmet_goals(Goal(), (eaten,), (fast,), "cpu")
    assert "1.05x as called, 1.30x alone" in text
    assert "4.0 us" in text
    assert "kernel_alone()" in text
    kept = replace(fast, dispatch_us=4.0)
    assert unmet_goals(Goal(), (kept,), (fast,), "cpu") == ()
    for target, most_us in (("cpu", 5.0), ("cuda:sm_90", 8.0)):
        within, beyond = (replace(kept, dispatch_us=most_us + more) for more in (-0.5, 0.5))
        assert unmet_goals(Goal(), (within,), (fast,), target) == ()
        assert f"{most_us + 0.5} us" in unmet_goals(Goal(), (beyond,), (fast,), target)[0]
