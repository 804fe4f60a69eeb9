"""When a skill is accepted, when it is contradicted, and its rank in between; pure functions.

A session that used a skill is one trial: its best use either had a certain gain (the interval of
its effect lies above 1) or not. Uses within one session share task, device and author, so they are
not separate trials; neither are sessions that share task and author (`trials`). With a uniform
prior, s successes in n trials give Beta(1 + s, 1 + n - s) for the share of sessions that the skill
helps (Gelman et al., Bayesian Data Analysis, section 2.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from kevolve_mcp.store import SkillEvidence, SkillOutcome

WORTH = 0.5  # a skill should help in at least this share of the sessions that use it
SURE = 0.95
LEAST_TRIALS = 5


Another = Callable[[str, str], bool]
"""Whether the digests of two task files are different tasks: see `sameness`."""


def accepted_because(evidence: Sequence[SkillEvidence], another: Another) -> str:
    """Return the reason to accept a skill without a person, "" while there is none.

    It needs two tasks or two devices: the interval of one pair already covers chance, so a second
    session on the same task and device would only repeat it. Another search must know that the
    effect transfers. Imported evidence does not count.
    """
    here = [e for e in evidence if not e.origin]
    tasks = _apart(list(dict.fromkeys(e.task for e in here)), another)
    devices = len({e.device for e in here})
    if max(tasks, devices) < 2:
        return ""
    return f"its effect was measured on {tasks} task(s) and {devices} device(s)"


def _apart(tasks: Sequence[str], another: Another) -> int:
    """The largest number of tasks found to differ from each other, trying each as the first:
    closeness is not transitive, so the middle one of three may be close to both others."""
    best = 0
    for i in range(len(tasks)):
        chosen = [tasks[i]]
        chosen += [t for t in tasks if all(another(t, c) for c in chosen)]
        best = max(best, len(chosen))
    return best


def success(outcome: SkillOutcome) -> bool:
    """Return whether the session had a certain gain."""
    return outcome.status == "correct" and outcome.interval is not None and outcome.interval[0] > 1


def trials(outcomes: Sequence[SkillOutcome], another: Another) -> tuple[SkillOutcome, ...]:
    """Return the best outcome for each task and author: repeating a session proves nothing new."""
    kept: list[SkillOutcome] = []
    for outcome in sorted(outcomes, key=worth, reverse=True):
        if all(k.author != outcome.author or another(k.task, outcome.task) for k in kept):
            kept.append(outcome)
    return tuple(kept)


def worth(outcome: SkillOutcome) -> tuple[bool, float, float]:
    """A key by which better outcomes are larger."""
    return (
        success(outcome),
        outcome.interval[0] if outcome.interval else 0.0,
        outcome.effect or 0.0,
    )


def contradicted_because(outcomes: Sequence[SkillOutcome]) -> str:
    """Return the reason to contradict a skill, "" while there is none: at least 5 trials, and with
    a probability of 0.95 it helps in less than half of them."""
    count, successes = len(outcomes), sum(map(success, outcomes))
    doubt = below(WORTH, 1 + successes, 1 + count - successes)
    if count < LEAST_TRIALS or doubt < SURE:
        return ""
    return (
        f"{count} sessions used it and {successes} gained: with a probability of {doubt:.2f} it "
        f"helps in less than {WORTH:.0%} of sessions"
    )


def standing(outcomes: Sequence[SkillOutcome]) -> float:
    """Return the factor on a skill's rank: 1 until it fails more often than it helps, then towards
    0. It is twice the mean of the Beta distribution."""
    mean = (1 + sum(map(success, outcomes))) / (2 + len(outcomes))
    return min(1.0, mean / WORTH)


def below(x: float, a: int, b: int) -> float:
    """Return the probability that a Beta(a, b) variable lies below x in 0..1, for integers: the
    binomial tail (Abramowitz and Stegun, 26.5.24)."""
    n = a + b - 1
    return math.fsum(math.comb(n, j) * x**j * (1 - x) ** (n - j) for j in range(a, n + 1))
