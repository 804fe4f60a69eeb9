"""The families of inputs that a case is checked and timed with, and those that it cannot handle.
The families are defined in `workers.families`."""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ...wire import dtypes
from ...workers import operators
from ...workers.families import FAMILIES, PLAIN
from ...workers.parameter_states import Kind
from ..correctness import tolerance
from ..correctness.distance import all_finite, real
from ..exchange.case_pool import NOTICED, CasePool
from ..exchange.input_sets import InputSet

if TYPE_CHECKING:
    import torch

# times what the framework is off by with plain inputs, beyond which a family cannot be judged
MOST_INACCURATE = 4.0
LARGE_BYTES = 16 << 20  # larger sets get fewer checking sets
# Families of timed sets. They reveal a candidate that reads only a sample of plain inputs, whose
# elements are alike, or that assumes their averages. Most timed sets are of these: a candidate that
# recognises them and works only there still does most of the work.
MOVED = "moved"
# Families with values beyond the range of those drawn. Where the reference keeps floating values,
# one such call would leave one beside which nobody sees what usual calls add, or none at all.
LOUD = ("uneven", "raised", "above", "below")
# only where a task is not timed with uneven values, which reveal more
WITHIN = ("ends", "gathered")
UNEVEN = ("uneven", "raised", MOVED, *WITHIN, "above", "below", "sparse", "clustered")
UNEVEN_SHARE = 2 / 3  # share of timed sets
# Families of which a sample is noticed get a larger part where others hide it: large values do not
# show in the mean of a bounded function.
REVEALING_WEIGHT = 4
# If an input indexes a value of each row, most timed sets make that value dominate the softmax. A
# candidate could recognise these sets at a glance; since they are most, working only in them saves
# little.
NAMED, NAMED_SHARE, NAMED_UNEVEN_SHARE = "named", 0.6, 0.25
# families with plain inputs and other parameters
GROWN = "grown"
STATE_FAMILIES: dict[Kind, str] = {
    "uneven": "uneven parameters", "raised": "raised parameters", "moved": "moved parameters"
}  # fmt: skip


def checking_families(pool: CasePool) -> list[str]:
    """Return the families to try besides the plain one; for large inputs those that reveal omitted
    work, and one at random."""
    idle = pool.idle_families
    families = [f for f in FAMILIES if f not in PLAIN and f not in idle]
    if operators.leaves_ties_open(pool.describe["operators"]):
        for family in ("zeros", "ties", "exact"):
            families.remove(family)
            pool.dropped_families[family] = "the reference may order equal values arbitrarily"
    if pool.input_bytes > LARGE_BYTES:
        always = [f for f in ("edges", *UNEVEN, NAMED) if f not in idle]
        return [*always, secrets.choice([f for f in families if f not in always])]
    return families


def objection(pool: CasePool, input_set: InputSet) -> str:
    """Return why a set cannot be used for judging, "" if it can."""
    if input_set.family == "special":
        if input_set.finite:
            return "no input or no output of the task can show special values"
        same = all(
            _same_kinds(expected, output)
            for expected, output in zip(input_set.expected, input_set.framework, strict=True)
            if real(output).is_floating_point()
        )
        return (
            ""
            if same
            else (
                "the framework's special values differ from those of the reference in high "
                "precision"
            )
        )
    if not input_set.finite:
        return "the reference is not finite"
    if len(input_set.left_open) == len(input_set.expected):
        return "the reference may order computed values arbitrarily: some are equal, or NaN"
    for output, leaf in zip(input_set.framework, pool.outputs["leaves"], strict=True):
        if dtypes.rounds(leaf["dtype"]) and not all_finite(output):
            return "the framework itself overflows"
    plain = pool.allowances or itertools.repeat(None)
    for allowance, leaf, terms, usual in zip(
        input_set.allowances, pool.outputs["leaves"], pool.reductions, plain, strict=False
    ):
        if allowance.rule == "open" or not dtypes.rounds(leaf["dtype"]):
            continue
        # of its own accord (TF32) it may be as inaccurate with plain inputs
        most = max(
            64 * tolerance.floor(leaf["dtype"], terms),
            MOST_INACCURATE * usual.framework_error if usual else 0.0,
        )
        if allowance.framework_error > most:
            return "the framework itself is inaccurate"
    return ""


def reveals_a_sample(
    errors: Sequence[float], allowances: Sequence[tolerance.Allowance], outputs: Collection[int]
) -> bool:
    """Return whether a candidate that reads one of several neighbours for all of them exceeds the
    limits in one of these outputs. errors: of each output, see workers.sampled_results."""
    return any(
        allowance.rule != "open" and error > NOTICED * allowance.norm
        for number, (error, allowance) in enumerate(zip(errors, allowances, strict=True))
        if number in outputs
    )


def note_samples(
    pool: CasePool, input_set: InputSet, allowances: Sequence[tolerance.Allowance]
) -> None:
    """Note what samples of one of two neighbours, inputs of another draw, and replaced products are
    off by on a set of a timed family with these allowances."""
    limits, found = norms(allowances), input_set.effects
    note_errors(pool.sampled_errors, "input", input_set.sampled[1:], limits)
    note_errors(pool.sampled_errors, "piece", found.get("pieces", ()), limits)
    least = pool.least_effects(allowances)
    note_errors(pool.effects, "input", found.get("replaced", ()), least)
    note_errors(pool.effects, "piece", found.get("replaced_pieces", ()), least)
    note_products(pool, input_set, allowances)


def note_products(
    pool: CasePool, input_set: InputSet, allowances: Sequence[tolerance.Allowance]
) -> None:
    """Note what replaced products are off by on a set of a timed family, or in another state: a
    branch that is nearly off until it is trained has to be there."""
    least = pool.least_effects(allowances)
    note_errors(pool.product_effects, "product", input_set.effects.get("products", ()), least)
    note_errors(pool.product_effects, "axis", input_set.effects.get("axes", ()), least)


def note_errors(
    noted: dict[tuple[str, int], list[float]],
    kind: str,
    found: Sequence[Sequence[float]],
    limits: Sequence[float],
) -> None:
    """Note what results are off by on a set of a timed family, with samples of its inputs or with
    others, as multiples of the limits: of several sets the largest; see CasePool.sampled_errors.
    Those that the reference refuses are empty."""
    for number, errors in enumerate(found):
        if not errors:
            continue
        ratios = [
            error / limit if limit else (math.inf if error else 0.0)
            for error, limit in zip(errors, limits, strict=True)
        ]
        noted[kind, number] = list(map(max, ratios, noted.get((kind, number), ratios)))


def norms(allowances: Sequence[tolerance.Allowance]) -> list[float]:
    """Return the limits by norm, infinite where any value is allowed."""
    return [math.inf if each.rule == "open" else each.norm for each in allowances]


def timed_families(usable: Sequence[str], count: int, revealing: Collection[str] = ()) -> list[str]:
    """Draw the families of a process's timed sets, in unpredictable order. Each usable family and
    the plain one are included as far as the number of sets allows, those first that reveal a
    sample, so that every process detects a candidate that is wrong in only one family. Left to
    chance, a family was missing in 1 of 30 draws of 12 sets and, by calculation, in about 1 of 10
    draws of three processes with four sets each."""
    chance = secrets.SystemRandom()
    uneven = [family for family in usable if family != NAMED]
    share = (NAMED_UNEVEN_SHARE if NAMED in usable else UNEVEN_SHARE) if uneven else 0.0
    weights = {family: REVEALING_WEIGHT if family in revealing else 1 for family in uneven}
    shares = {family: share * weight / sum(weights.values()) for family, weight in weights.items()}
    if NAMED in usable:
        shares[NAMED] = NAMED_SHARE
    shares["dense"] = 1.0 - sum(shares.values())
    families = chance.choices(list(shares), list(shares.values()), k=count)
    missing = [family for family in shares if family not in families]
    chance.shuffle(missing)
    revealing = {*revealing, NAMED}  # which shows more of its tasks than the others
    missing.sort(key=lambda family: family not in revealing)
    for family in missing:
        places = [n for n, other in enumerate(families) if families.count(other) > 1]
        if not places and family in revealing:
            places = [n for n, other in enumerate(families) if other not in revealing]
        if places:
            families[chance.choice(places)] = family
    return families


def _same_kinds(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether NaN, infinities and finite values are in the same places."""
    import torch

    kinds = [
        torch.where(t.isnan(), 2.0, torch.where(t.isinf(), t.sign(), 0.0)).float()
        for t in map(real, (one, other))
    ]
    return bool(torch.equal(*kinds))
