"""How certain the values are on which a reference decides: by what operators computed them, and by
how far the framework's own are off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

from ..wire.nesting import tensors_of
from ..wire.slack import Slack
from . import decision_runs, decisions, operators, tensor_relations

# the coarsest unit roundoff that counts: a kernel that computes in 16 bits before rounding to 8
# must get the framework's result
SINGLE = decisions.SINGLE
# values of a decision that are kept, to be compared with those in high precision
KEPT_VALUES = 1 << 20
# operators whose errors are small beside each of their results
_FACTORS = frozenset(["mul", "div", "reciprocal", "sqrt", "rsqrt", "square", "pow"])
# those that round once everywhere; on a GPU a division or a root may be off by two units
_ROUNDED_ONCE = frozenset(["mul", "square", "add", "sub", "rsub", "addcmul", "lerp"])
_PLAIN_POWERS = (-1, -0.5, 0.5, 1, 2, 3)
# operators of which it is known how many terms they add up, and those that add up what may all
# belong to one place
_COUNTED = frozenset([
    "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv", "convolution", "sum", "mean", "var",
    "std", "var_mean", "std_mean", "norm", "linalg_vector_norm", "prod", "nansum", "logsumexp",
])  # fmt: skip
_GATHERING = ("scatter", "index_add", "index_put", "index_reduce", "bincount", "segment", "histc")
# roundings that count for an approximated function, such as exp, and for a division
APPROXIMATION = 16
# Times what the framework is off by in the middle, where it computes in less than single precision
# (TF32): of some thousand close values, honest errors of two differ by up to eight times that. And
# the least and the largest such error, relative to the terms behind: less is single precision, more
# a decision that went the other way.
OFF_TIMES, LEAST_OFF, MOST_OFF = 16.0, 16 * SINGLE, 2.0**-10

Kind = Literal["exact", "relative", "uncertain"]
"""Without any error, with errors that are small beside each value (products), or with errors that
are small beside the terms behind it."""


@dataclass(frozen=True)
class Certainty:
    """How certain the values of a decision are. terms: roundings behind one of them. errors: what
    some of the framework's own are off by, in single precision (see `some`)."""

    kind: Kind = "uncertain"
    terms: int = 1 << 20
    errors: Sequence[Any] = ()

    def allowed(self, slack: Slack, off: float = 0.0) -> float:
        """Return what an honest kernel's values may be off by, relative to the terms behind. off:
        what the framework's own are off by."""
        return max(slack.of(self.terms), OFF_TIMES * off)


UNKNOWN = Certainty()


def of(certain: Sequence[Certainty], number: int) -> Certainty:
    """Return the certainty of a decision by number, UNKNOWN beyond those that are known."""
    return certain[number] if number < len(certain) else UNKNOWN


class _Origin(NamedTuple):
    """What computed a tensor from inputs: whether only exact operators did, whether only those and
    products did, and how many roundings are behind one of its elements."""

    exact: bool = True
    factors: bool = True
    terms: int = 0


@dataclass(frozen=True)
class _Decision:
    """What an operator rounds or decides on. divided: it is divided before it is rounded. rounds:
    to whole numbers or 8 bits. orders: it returns places of its values in order. read: a number
    that the reference has read of computed values may enter."""

    values: Sequence[Any]
    origin: _Origin
    divided: bool
    rounds: bool
    orders: bool
    read: bool = False

    def certainty(self, other: _Decision) -> Certainty:
        """Return how certain the values are. other: the same decision in high precision."""
        kind = self._kind(other)
        errors = self._errors(other) if kind == "uncertain" else ()
        return Certainty(kind, self.origin.terms + self.divided, errors)

    def _kind(self, other: _Decision) -> Kind:
        """Floating values tell nothing where the reference fixes their dtype, but a product of
        exact values that is zero has no error. Values in order that are equal may be put in any
        order even where they have no error, unless they are inputs."""
        if self.divided or self.read:
            return "uncertain"
        if self.origin.exact:
            return "exact"
        if self.orders or len(self.values) != len(other.values):
            return "uncertain"
        found: Kind = "exact"
        for one, precise in zip(self.values, other.values, strict=True):
            if one.shape != precise.shape:
                return "uncertain"
            fixed = one.dtype == precise.dtype and one.is_floating_point()
            if fixed or not tensor_relations.same(one.to(precise.dtype), precise):
                found = "relative"
        return found if found == "exact" or self.origin.factors else "uncertain"

    def _errors(self, other: _Decision) -> list[Any]:
        """Return what values in single precision are off by."""
        import torch

        return [
            (one.double() - precise.double()).abs()
            for one, precise in zip(self.values, other.values, strict=False)
            if one.dtype == torch.float32 and one.shape == precise.shape
        ]


def decides(names: Iterable[str], *, discrete: bool) -> bool:
    """Return whether one of these operators, by full name, rounds to whole numbers or decides.
    discrete: see decisions.are_made."""
    names = list(names)
    return decisions.are_made(names, discrete=discrete) or any(
        decision_runs.is_rounding(name.split(".")[1]) for name in names if "." in name
    )


def casts(names: Iterable[str]) -> bool:
    """Return whether one of these operators may round to whole numbers or 8 bits by its dtype."""
    return any(name.split(".")[1] in decision_runs.CASTS for name in names if "." in name)


def unit(
    call: Callable[[Any], Any],
    inputs: Any,
    precise: Callable[[Any], Any],
    arguments: Any,
    *,
    rounding: bool = False,
) -> float:
    """Return the unit roundoff of the values that call(inputs) rounds or decides on, at most
    SINGLE; 0 where these values are exact. precise, arguments: the same call in high precision.
    rounding: whether only those count that it rounds."""
    import torch

    made = _decisions(call, inputs)
    return max(
        (
            min(torch.finfo(value.dtype).eps / 2, SINGLE)
            for decision, certainty in zip(
                made, find(call, inputs, precise, arguments, made), strict=True
            )
            if certainty.kind != "exact" and (decision.rounds or not rounding)
            for value in decision.values
        ),
        default=0.0,
    )


def find(
    call: Callable[[Any], Any],
    inputs: Any,
    precise: Callable[[Any], Any],
    arguments: Any,
    made: Sequence[_Decision] | None = None,
) -> list[Certainty]:
    """Return how certain each decision of call(inputs) is, in order. precise, arguments: the same
    call in high precision. made: the decisions of call(inputs), if they are known."""
    made = _decisions(call, inputs) if made is None else made
    others = _decisions(precise, arguments)
    if len(made) != len(others):
        return [UNKNOWN] * len(made)
    return [one.certainty(other) for one, other in zip(made, others, strict=True)]


def _decisions(call: Callable[[Any], Any], inputs: Any) -> list[_Decision]:
    """Collect what the operators of call(inputs) round or decide on, in order."""
    collected: list[_Decision] = []
    # by storage; one that none computed holds an input, or is written when its place is used again
    computed: dict[int, _Origin] = {0: _Origin(False, False)}
    numbers = _Origin()  # that of those that the reference has read, and may use anywhere

    def origin(values: Any) -> _Origin:
        found = [
            numbers,
            *(computed.get(decision_runs.storage(t), _Origin()) for t in tensors_of(values)),
        ]
        exact, factors, terms = zip(*found, strict=True)
        return _Origin(all(exact), all(factors), max(terms))

    def at(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        if positions := decision_runs.positions(name, args, kwargs):
            collected.append(
                _Decision(
                    [some(args[position]).clone() for position in positions],
                    origin([args[position] for position in positions]),
                    name in decision_runs.SCALING,
                    decision_runs.rounds(name, args, kwargs),
                    name in decisions.CHOICES,
                    not numbers.exact,
                )
            )
        return args

    def after(name: str, args: Any, result: Any) -> None:
        nonlocal numbers
        before = origin(args)
        if name == "_local_scalar_dense":
            numbers = before
        exact = _keeps_exact(name, args)
        made = _Origin(
            before.exact and exact,
            before.factors and (exact or _is_factor(name, args)),
            before.terms + _roundings(name, args, result),
        )
        there = {decision_runs.storage(t) for t in tensors_of(args)}
        for storage in {decision_runs.storage(t) for t in tensors_of(result)}:
            had = computed.get(storage, _Origin()) if storage in there else _Origin()
            computed[storage] = _Origin(
                had.exact and made.exact, had.factors and made.factors, max(had.terms, made.terms)
            )

    decision_runs.watch(call, inputs, at, after)
    return collected


def _keeps_exact(name: str, args: Sequence[Any]) -> bool:
    """Return whether an operator is exact with these arguments: it adds nothing up."""
    plain = name.strip("_") or name
    if plain in ("abs", "sgn") and any(t.is_complex() for t in tensors_of(args)):
        return False
    if plain == "index_put" and any(each is True for each in args):  # accumulates
        return False
    if plain == "scatter" and any(isinstance(each, str) for each in args):  # reduces
        return False
    return decision_runs.keeps_exact(name)


def _is_factor(name: str, args: Sequence[Any]) -> bool:
    """Return whether an operator rounds about once, with an error small beside the result."""
    plain = name.strip("_") or name
    if plain == "pow":
        return any(not hasattr(each, "shape") and each in _PLAIN_POWERS for each in args[1:2])
    return plain in _FACTORS


def _is_square(plain: str, args: Sequence[Any]) -> bool:
    return plain == "pow" and not hasattr(args[1], "shape") and args[1] == 2


def _roundings(name: str, args: Sequence[Any], result: Any) -> int:
    """Return how many roundings an operator puts behind an element of its result. Where it combines
    elements in a way that is not known, this is the longest axis of what it reads, or all that may
    be added up in one place."""
    plain = name.strip("_") or name
    copying = decision_runs.copies(name) and not decision_runs.keeps_exact(name)
    if copying or _keeps_exact(name, args):
        return 0
    if plain in _ROUNDED_ONCE or _is_square(plain, args):
        return 1
    if _is_pointwise(name):
        return APPROXIMATION
    terms: int = operators.terms(f"aten.{plain}", args, result)
    if terms and plain in _COUNTED:
        return terms
    read = tensors_of(args)
    if plain.startswith(_GATHERING):
        return max([1, *(int(t.numel()) for t in read)])
    return max([terms, 1, *(int(extent) for t in read for extent in t.shape)])


@cache
def _is_pointwise(name: str) -> bool:
    import torch

    packet = getattr(torch.ops.aten, name, None)
    return packet is not None and any(
        torch.Tag.pointwise in getattr(packet, each).tags for each in packet.overloads()
    )


def some(value: Any) -> Any:
    """Return at most KEPT_VALUES of the values, flat."""
    flat = value.detach().reshape(-1)
    return flat[:: max(1, -(-len(flat) // KEPT_VALUES))]
