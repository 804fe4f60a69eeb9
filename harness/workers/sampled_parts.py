"""What a kernel would be off by that reads a sample of a part of an input, or of what is summed up.

A task may take several inputs from one tensor, of which one decides the outputs and another hardly
shows: a sample of the whole tensor changes much, a sample of that part nothing. And where a product
adds up thousands of terms that are nearly alike, as attention over many keys with similar values, a
half of them gives the same. Both are found while the reference runs: every piece that it takes out
of an input is replaced by a sample of it, or by that piece of another draw, and the factors of its
products are replaced by samples along the axis that is added up.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..wire import dtypes
from ..wire.nesting import replace_tensors, tensors_of
from . import sampled_results
from .replaced_products import ATTENTION
from .sampled_results import FEW, MOST_ALONE, NO_EFFECT

LEAST_SHARE = 1 / 8  # of all inputs: to leave out half of a smaller piece saves little
WHOLE = 15 / 16  # of an input: a larger piece is seen with the input itself
MOST_BYTES = 1 << 29  # of the inputs whose pieces are sampled: two more draws are kept
SECONDS = 5.0  # for the calls of a set with pieces, and again for those with axes
_COPYING = frozenset(["index", "index_select", "gather", "take", "masked_select"])
# operators, without marks of operators in place, with the places of the factors to sample: in the
# others, the axis that is added up is sampled with these or is what another product gave
_FACTORS = {
    **dict.fromkeys(["mm", "bmm", "mv", "dot", "vdot"], (1,)),
    **dict.fromkeys(["addmm", "baddbmm", "addmv", "addbmm"], (2,)),
}
_KEYS_AND_VALUES = (1, 2)
_Call = Callable[[Any], list[Any]]
_Sample = Callable[[Any], Any]


def errors(
    call: _Call,
    precise: Any,
    expected: Sequence[Any],
    *,
    sampled: bool,
    draw: Callable[[], Any] | None,
) -> tuple[list[list[float]], list[list[float]]]:
    """Return for pieces of inputs what results are off by, relative to their norms: with a sample
    of one of two neighbours, in two ways for each piece, if `sampled`; and with that piece of
    another draw, as sampled_results.replaced_errors counts. Nothing for those that the reference
    does not accept. draw: returns the inputs of that draw, None for none."""
    found: list[list[float]] = []
    replaced: list[list[float]] = []
    if sum(t.nbytes for t in tensors_of(precise)) > MOST_BYTES:
        return [], []
    try:
        pieces, seconds = _timed(partial(_pieces, call, precise))
    except Exception:  # it accepts the inputs themselves, but perhaps not that it is watched
        return [], []
    pieces = pieces[: int(SECONDS / (3 * seconds))]
    others = _of_another_draw(call, precise, draw, pieces) if pieces and draw else {}
    for piece in pieces:
        replacing = partial(_call_with_piece, call, precise, piece)
        for sample in _SAMPLES if sampled else ():
            errors = sampled_results.distances(partial(replacing, sample), expected)
            found.append([0.0 if each < NO_EFFECT else each for each in errors])
        other: _Sample = partial(_instead, others.get(piece))
        replaced.append(
            sampled_results.effects(partial(replacing, other), expected) if piece in others else []
        )
    return found, replaced


def axis_errors(call: _Call, precise: Any, expected: Sequence[Any]) -> list[list[float]]:
    """Return what results are off by, see sampled_results.effects, where of two neighbours along an
    axis that products add up one stands for both, for each length of such an axis."""
    lengths: list[int] = []

    def note(name: str, args: Sequence[Any]) -> Sequence[Any]:
        lengths.extend(_summed(name, args))
        return args

    try:
        _, seconds = _timed(partial(_call_watched, call, precise, before=note))
    except Exception:  # as in `errors`
        return []
    chosen = sorted({n for n in lengths if n >= FEW}, reverse=True)[:MOST_ALONE]
    chosen = chosen[: int(SECONDS / seconds)]
    return [
        sampled_results.effects(
            partial(_call_watched, call, precise, before=partial(_halve, length)), expected
        )
        for length in chosen
    ]


_SAMPLES: tuple[_Sample, ...] = (
    sampled_results.second_of_two,
    partial(sampled_results.first_of_two, axis=0),
)
_Piece = tuple[int, int]  # the number of an operator, and of a tensor that it returns


def _pieces(call: _Call, precise: Any) -> list[_Piece]:
    """Return the pieces that call(precise) takes out of its inputs, or of what has as many elements
    and is computed from one (a cast, a normalization), the largest first."""
    given_tensors = tensors_of(precise)
    inputs = {t.untyped_storage().data_ptr(): t.numel() for t in given_tensors}
    least = max(FEW, LEAST_SHARE * sum(inputs.values()))
    kept: list[Any] = []  # so that no other tensor gets their memory
    sizes: dict[_Piece, int] = {}
    seen: set[tuple[Any, ...]] = set()

    def at(number: int, name: str, args: Sequence[Any], result: Any) -> None:
        given = next((t for t in args if hasattr(t, "untyped_storage")), None)
        whole = inputs.get(given.untyped_storage().data_ptr()) if given is not None else None
        if whole is None:
            return
        for place, tensor in enumerate(tensors_of(result)):
            if tensor.numel() == whole and dtypes.rounds(tensor.dtype):
                if sum(t.nbytes for t in kept) + tensor.nbytes > MOST_BYTES:
                    continue
                kept.append(tensor)
                inputs[tensor.untyped_storage().data_ptr()] = whole
                continue
            view = tensor.untyped_storage().data_ptr() in inputs
            where = (tensor.data_ptr(), tensor.shape, tensor.stride()) if view else (number, place)
            if not (view or name in _COPYING) or not dtypes.rounds(tensor.dtype):
                continue
            if where not in seen and least <= tensor.numel() <= WHOLE * whole:
                seen.add(where)
                sizes[number, place] = tensor.numel()

    _call_watched(call, precise, after=at)
    return sorted(sizes, key=lambda piece: -sizes[piece])[:MOST_ALONE]


def _call_with_piece(call: _Call, precise: Any, piece: _Piece, sample: _Sample) -> list[Any]:
    """Run call on copies of the inputs, with a piece replaced as soon as it is taken."""

    def at(number: int, _name: str, _args: Sequence[Any], result: Any) -> None:
        if number == piece[0]:
            tensor = tensors_of(result)[piece[1]]
            tensor.copy_(sample(tensor.clone()))

    return _call_watched(call, _copied(precise), after=at)


def _of_another_draw(
    call: _Call, precise: Any, draw: Callable[[], Any], pieces: Sequence[_Piece]
) -> dict[_Piece, Any]:
    kept: dict[_Piece, Any] = {}

    def at(number: int, _name: str, _args: Sequence[Any], result: Any) -> None:
        for piece in pieces:
            if piece[0] == number:
                kept[piece] = tensors_of(result)[piece[1]].clone()

    try:
        tensors, others = tensors_of(precise), tensors_of(draw())
        # an index of another draw may lie outside, which a device does not forgive
        given = [
            other.to(tensor) if dtypes.rounds(tensor.dtype) else tensor
            for tensor, other in zip(tensors, others, strict=True)
        ]
        _call_watched(call, replace_tensors(precise, given), after=at)
    except Exception:  # there may be no memory for one more draw
        return {}
    return kept


def _instead(other: Any, _tensor: Any) -> Any:
    return other


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """Return what it returns and how many seconds it took."""
    _call_watched(lambda _: [], [])  # the first one imports for seconds
    start = time.monotonic()
    return run(), max(time.monotonic() - start, 1e-6)


def _copied(precise: Any) -> Any:
    return replace_tensors(precise, [t.detach().clone() for t in tensors_of(precise)])


def _places(name: str) -> Sequence[int]:
    return _KEYS_AND_VALUES if _is_attention(name) else _FACTORS.get(name, ())


def _is_attention(name: str) -> bool:
    return any(part in name for part in ATTENTION) and "backward" not in name


def _summed(name: str, args: Sequence[Any]) -> list[int]:
    """Return the lengths of the axes that an operator adds up, outputs included that another
    product adds up."""
    return [args[p].shape[max(-2, -args[p].dim())] for p in _places(name)]


def _halve(length: int, name: str, args: Sequence[Any]) -> Sequence[Any]:
    """Return the arguments of an operator with its factors sampled along an axis of this length:
    the one that is added up, or else that of the columns."""
    changed = list(args)
    for place in _places(name):
        factor = changed[place]
        axes = range(max(-2, -factor.dim()), -1 if _is_attention(name) else 0)
        axis = next((a for a in axes if factor.shape[a] == length), None)
        if axis is not None:
            changed[place] = sampled_results.first_of_two(factor, factor.dim() + axis)
    return changed


def _call_watched(
    call: _Call,
    inputs: Any,
    *,
    before: Callable[[str, Sequence[Any]], Sequence[Any]] = lambda _, args: args,
    after: Callable[[int, str, Sequence[Any], Any], None] = lambda *_: None,
) -> list[Any]:
    """Run call(inputs). before: is told the name and the arguments of each operator, and returns
    the arguments to use. after: is told its number and results as well."""
    from .watching_mode import WatchingMode, is_higher_order

    numbers = itertools.count()

    class PartsMode(WatchingMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
        def __torch_dispatch__(
            self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = func.name() if is_higher_order(func) else str(func).split(".")[1]
            name = name.strip("_") or name
            result = self.run(func, before(name, args), kwargs or {})
            after(next(numbers), name, args, result)
            return result

    with PartsMode():
        return call(inputs)
