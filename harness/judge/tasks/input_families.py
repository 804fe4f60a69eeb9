"""Which families of inputs a case is checked and timed with, and which it cannot bear. What they
are like is in `workers.families`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...workers import operators
from ...workers.families import FAMILIES, PLAIN
from ..correctness import tolerance
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import InputSet

if TYPE_CHECKING:
    import torch

LARGE_BYTES = 16 << 20  # of one set: fewer checking sets then
# Families of timed sets: who looks at a sample of plain inputs, in which elements are alike, is
# wrong there, and who knows beforehand what their averages are.
MOVED = "moved"
UNEVEN = ("uneven", "raised", MOVED)
UNEVEN_SHARE = 0.5  # of timed sets
# Where an input names a value of each row, most timed sets are so that it has most of the softmax,
# which one look tells: who does the work in these alone has done it in most.
NAMED, NAMED_SHARE, NAMED_UNEVEN_SHARE = "named", 0.6, 0.25
GROWN = "grown"  # the checking family of which the parameters are other ones


def checking_families(pool: CasePool) -> list[str]:
    """The families to try besides the plain one; for large inputs the one that truncated work does
    not survive, and two at random."""
    families = [f for f in FAMILIES if f not in PLAIN and (f != NAMED or pool.names)]
    if operators.leaves_ties_open(pool.describe["operators"]):
        for family in ("zeros", "ties", "exact"):
            families.remove(family)
            pool.dropped_families[family] = "the reference may order equal values as it likes"
    if pool.input_bytes > LARGE_BYTES:
        always = ["edges", *UNEVEN, *([NAMED] if pool.names else [])]
        return [*always, secrets.choice([f for f in families if f not in always])]
    return families


def objection(pool: CasePool, input_set: InputSet) -> str:
    """Why a set cannot judge anybody, "" where it can."""
    if input_set.family == "special":
        if input_set.finite:
            return "no input or no output of the task can show special values"
        same = all(
            _same_kinds(expected, output)
            for expected, output in zip(input_set.expected, input_set.framework, strict=True)
            if output.is_floating_point()
        )
        return (
            ""
            if same
            else (
                "the framework itself gives other special values than the reference in high "
                "precision"
            )
        )
    if not input_set.finite:
        return "the reference is not finite"
    import torch

    for output, leaf in zip(input_set.framework, pool.outputs["leaves"], strict=True):
        if leaf["dtype"] in tolerance.ROUNDOFF and not bool(torch.isfinite(output).all()):
            return "the framework itself overflows there"
    for allowance, leaf, terms in zip(
        input_set.allowances, pool.outputs["leaves"], pool.reductions, strict=True
    ):
        if leaf["dtype"] in tolerance.ROUNDOFF and allowance.framework_error > 64 * tolerance.floor(
            leaf["dtype"], terms
        ):
            return "the framework itself is inaccurate there"
    return ""


def timed_families(usable: Sequence[str], count: int) -> list[str]:
    """Of so many timed sets of one process, in an order that nobody knows. Each family that is
    usable is among them, and the plain one, as far as there are so many: who is wrong in one alone
    is found by each process. Left to chance, 1 of 30 draws of 12 sets had none of one; of three
    processes with four sets each about 1 of 10, by calculation."""
    chance = secrets.SystemRandom()
    uneven = [family for family in usable if family != NAMED]
    share = (NAMED_UNEVEN_SHARE if NAMED in usable else UNEVEN_SHARE) if uneven else 0.0
    shares = {family: share / len(uneven) for family in uneven}
    if NAMED in usable:
        shares[NAMED] = NAMED_SHARE
    shares["dense"] = 1.0 - sum(shares.values())
    families = chance.choices(list(shares), list(shares.values()), k=count)
    missing = [family for family in shares if family not in families]
    chance.shuffle(missing)
    for family in missing:
        repeated = [n for n, other in enumerate(families) if families.count(other) > 1]
        if repeated:
            families[chance.choice(repeated)] = family
    return families


def _same_kinds(one: torch.Tensor, other: torch.Tensor) -> bool:
    """NaN, infinities and finite values in the same places."""
    import torch

    kinds = [
        torch.where(t.isnan(), 2.0, torch.where(t.isinf(), t.sign(), 0.0)).float()
        for t in (one, other)
    ]
    return bool(torch.equal(*kinds))
