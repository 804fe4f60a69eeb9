"""The framework's operators that a call executes. They characterize a task, and show whether the
framework did a candidate's work."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
# Operators that allocate, view or copy but compute nothing: a candidate may use them freely.
_FREE_NAMES = """
    empty empty_like empty_strided new_empty new_empty_strided empty_permuted zeros zeros_like
    new_zeros full full_like ones ones_like zero_ fill_ detach detach_ alias view _unsafe_view
    reshape _reshape_alias as_strided t transpose permute expand slice select squeeze unsqueeze
    flatten unflatten unbind split split_with_sizes chunk narrow diagonal contiguous clone copy_
    _to_copy to lift_fresh lift resize_ set_ arange scalar_tensor view_as_real view_as_complex
    unfold movedim is_same_size record_stream _local_scalar_dense item is_nonzero linspace
    new_full new_ones as_strided_ squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_ unsafe_chunk
    unsafe_split unsafe_split_with_sizes view_as
"""
_FREE = frozenset(_FREE_NAMES.split())
_FILLING_NAMES = """
    zeros zeros_like new_zeros full full_like new_full ones ones_like new_ones zero_ fill_ bincount
    histc one_hot scatter scatter_add scatter_reduce index_add index_put clone copy_ _to_copy stack
    cat repeat
"""
_FILLING = frozenset(_FILLING_NAMES.split())

_PLAIN = ("aten", "prims")  # namespaces of the framework's plain operators

# Operators that move, choose or compare values: they round nothing, so only one result is right.
_EXACT_NAMES = """
    relu relu_ abs abs_ neg neg_ sign sgn clamp clamp_ clamp_min clamp_max hardtanh threshold
    maximum minimum max min amax amin aminmax argmax argmin where gather index index_select
    index_put index_put_ scatter scatter_ embedding take take_along_dim masked_fill masked_fill_
    masked_select cat stack flip roll repeat repeat_interleave tril triu diag diagonal_copy
    constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d max_pool2d
    max_pool2d_with_indices max_pool3d_with_indices pixel_shuffle pixel_unshuffle eq ne lt le gt ge
    logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor
    isnan isinf isfinite floor ceil trunc round sort topk kthvalue cummax cummin searchsorted
    bucketize nonzero one_hot any all
"""
_EXACT = frozenset(_EXACT_NAMES.split())
_OPEN_TIES = frozenset(
    ["sort", "argsort", "topk", "kthvalue", "median", "nanmedian", "mode", "unique_dim", "_unique2"]
)


_OSCILLATING = frozenset({"sin", "cos", "tan", "sinc", "remainder", "fmod", "frac"})
# higher-order operators that branch on a tensor's value
_LOOKING = frozenset({"higher_order.cond", "higher_order.while_loop"})


def is_exact(names: Iterable[str]) -> bool:
    """Return whether operators with these names have only one right result, bit for bit up to the
    sign of zero."""
    return all(is_free(name) or name.split(".")[1] in _EXACT for name in names)


def leaves_ties_open(names: Iterable[str]) -> bool:
    """Return whether one of these operators may order equal values arbitrarily."""
    return any(name.split(".")[1] in _OPEN_TIES for name in names)


def oscillates(names: Iterable[str]) -> bool:
    """Return whether one of these operators is periodic, so that it can amplify an error of its
    argument with either sign."""
    return any(name.split(".")[1] in _OSCILLATING for name in names)


def is_free(name: str) -> bool:
    """Return whether "aten.NAME[.overload]" computes nothing. Of operators that are not the
    framework's own that is not known: anyone can define one of any name, and what it calls is not
    recorded. Profiling marks compute nothing."""
    namespace, operator = name.split(".")[:2] if "." in name else ("aten", name)
    return (namespace in _PLAIN and operator in _FREE) or namespace == "profiler"


# methods of a tensor that export its values without dispatching an operator
_EXPORTS = ("numpy", "__array__", "tolist", "__dlpack__")


class ExportRecorder:
    """Records whether values of a tensor leave the framework inside the `with` block other than by
    an operator. A torch function mode would see this too, but would disable some of the framework's
    own code paths."""

    def __init__(self) -> None:
        self.exported = False
        self._undo = contextlib.ExitStack()

    def __enter__(self) -> ExportRecorder:
        import torch

        for name in _EXPORTS:
            original = vars(torch.Tensor).get(name)  # most are inherited
            setattr(torch.Tensor, name, self._recording(getattr(torch.Tensor, name)))
            self._undo.callback(
                *(
                    (delattr, torch.Tensor, name)
                    if original is None
                    else (setattr, torch.Tensor, name, original)
                )
            )
        return self

    def __exit__(self, *details: Any) -> None:
        self._undo.close()

    def _recording(self, export: Callable[..., T]) -> Callable[..., T]:
        def recorded(tensor: Any, *args: Any, **kwargs: Any) -> T:
            self.exported = True
            return export(tensor, *args, **kwargs)

        return recorded


class Recorder:
    """Counts the operators dispatched inside the `with` block, by full name such as
    "aten.mean.dim", with elements written and host nanoseconds."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._elements: Counter[str] = Counter()
        self._ns: Counter[str] = Counter()
        self._total_ns = 0
        self._mode: Any = None
        # whether each element of a result comes from one element of each argument
        self.pointwise = True
        # whether a tensor's value was returned to Python, which may then branch on it
        self.looks = False
        # how many terms can enter one element of a result, in all operators in sequence
        self.terms = 0
        # bytes of new memory: the most of one operator, and those of all that fill memory
        self.largest_bytes = self.filled_bytes = 0

    def __enter__(self) -> Recorder:
        from torch import Tag

        from .watching_mode import WatchingMode, full_name

        calls, elements, spent, recorder = self._calls, self._elements, self._ns, self

        class RecorderMode(WatchingMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
            def __torch_dispatch__(
                self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                inside, start = recorder._total_ns, time.perf_counter_ns()
                result = self.run(func, args, kwargs or {})
                name, tags = full_name(func), getattr(func, "tags", ())
                # without the operators inside a higher-order one, which count by themselves
                own_ns = time.perf_counter_ns() - start - (recorder._total_ns - inside)
                recorder._total_ns += own_ns
                spent[name] += own_ns
                calls[name] += 1
                recorder.terms += terms(name, args, result)
                own_bytes = _own_bytes(args, result)
                recorder.largest_bytes = max(recorder.largest_bytes, own_bytes)
                kind = name.split(".")[1]
                if kind in _FILLING:
                    recorder.filled_bytes += own_bytes or result.nbytes  # in place
                recorder.pointwise &= is_free(name) or Tag.pointwise in tags
                recorder.looks |= name in _LOOKING or Tag.data_dependent_output in tags
                for item in result if isinstance(result, (list, tuple)) else (result,):
                    elements[name] += item.numel() if hasattr(item, "numel") else 0
                return result

        self._mode = RecorderMode()
        self._mode.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self._mode.__exit__(*details)

    def counts(self) -> dict[str, list[int]]:
        """Return name -> [calls, elements written, nanoseconds]."""
        return {
            name: [count, self._elements[name], self._ns[name]]
            for name, count in self._calls.items()
        }


def _own_bytes(args: Any, result: Any) -> int:
    """Return the bytes of the results that lie in no argument's memory."""
    given = {t.untyped_storage()._cdata for t in args if _is_strided(t)}
    results = result if isinstance(result, (list, tuple)) else [result]
    return sum(
        each.untyped_storage().nbytes()
        for each in results
        if _is_strided(each) and each.untyped_storage()._cdata not in given
    )


def _is_strided(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def terms(name: str, args: Any, result: Any) -> int:
    """Return how many products or elements one operator adds up for an element of its result, 0 if
    it adds none; estimated by the ratio of sizes unless its kind is known. This misses a softmax,
    which keeps the size; callers allow for the longest axis where the kind is not known."""
    read = [t.numel() for t in args if hasattr(t, "numel")]
    written = [
        t.numel()
        for t in (result if isinstance(result, (list, tuple)) else [result])
        if hasattr(t, "numel") and t.numel()
    ]
    if not read or not written or is_free(name):
        return 0
    kind = name.split(".")[1]
    if kind in ("mm", "bmm", "mv", "dot"):
        return int(args[0].shape[-1])
    if kind in ("addmm", "baddbmm", "addmv"):
        return int(args[1].shape[-1])
    if kind == "convolution":
        return int(args[1].numel() // max(1, min(args[1].shape[0], args[1].shape[1])))
    if kind.startswith("nll_loss") and not kind.endswith("backward"):
        return int(args[1].numel())
    ratio = max(read) // min(written)
    return ratio if ratio > 1 else 0


def call_counted(call: Callable[[Any], T], inputs: Any) -> tuple[T, int]:
    """Call once and return the result and its floating-point operations, as the framework counts
    them for products and convolutions."""
    from torch.utils.flop_counter import FlopCounterMode, flop_registry

    from .watching_mode import uncompiled

    attention = [
        op for op in flop_registry if "scaled_dot_product" in str(op) and "backward" not in str(op)
    ]
    counter = FlopCounterMode(display=False, custom_mapping=dict.fromkeys(attention, _attention))
    counter.mod_tracker = _NoModules()  # type: ignore[assignment]  # counts by module need hooks that gradients of leaves do not bear
    try:
        with counter, uncompiled():
            result = call(inputs)
    except (AssertionError, TypeError):
        # the counter does not support this call: its formula, or a higher-order operator other than
        # `cond`, whose operations are then missing; an error of the task itself recurs
        result = call(inputs)
    return result, int(counter.get_total_flops())


def _attention(query: list[int], key: list[int], value: list[int], *_: Any, **__: Any) -> int:
    """Return the operations of attention's two products. Heads may share keys and values, which the
    framework's own formula refuses. Shapes: [batch, heads, length, width]."""
    batch, heads, length, width = query
    return 2 * batch * heads * length * key[-2] * (width + value[-1])


class _NoModules(contextlib.AbstractContextManager["_NoModules"]):
    """A replacement for the module tracker: everything counts as one module."""

    parents = frozenset({"Global"})
    is_bw = False

    def __exit__(self, *details: Any) -> None:
        """Do nothing: there are no hooks to remove."""
