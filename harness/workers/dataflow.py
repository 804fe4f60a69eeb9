"""The data-flow graph of a call, in plain operators. Tasks are compared by it.

Operators are recorded where the framework dispatches them, so the graph is that of one call and
branches on values need no special treatment. The graph is normalized: composed operators are
decomposed (a layer norm equals one written out), operators that only view, copy or convert are left
out, and operators that differ only in form get one name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import operators

MOST = 512  # operators in one graph; a loop repeats itself long before
# what an operator reads besides other results: an input of the call, or a parameter or constant
INPUT, OTHER = -1, -2

_COMPOSED_NAMES = """
    native_layer_norm native_group_norm _fused_rms_norm _softmax _log_softmax _safe_softmax
    logsumexp nll_loss_forward mean std_mean var_mean linalg_vector_norm norm sigmoid silu gelu
    addmm softplus mish hardswish hardsigmoid elu leaky_relu mse_loss smooth_l1_loss std addcmul
    addcdiv lerp native_batch_norm _native_batch_norm_legit native_layer_norm_backward
    _softmax_backward_data _log_softmax_backward_data silu_backward gelu_backward
"""
_COMPOSED = frozenset(_COMPOSED_NAMES.split())

_FREE = frozenset(
    ["broadcast_in_dim", "convert_element_type", "collapse_view", "split_dim"]
)  # plain operators that compute nothing, besides those of operators.is_free

_SAME = {
    name: one
    for one, names in {
        "sub": "rsub",
        "div": "true_divide reciprocal",
        "sqrt": "rsqrt",
        "maximum": "relu clamp_min threshold",
        "minimum": "clamp_max",
        "max": "amax",
        "min": "amin",
        "mul": "square",
        "gather": "embedding index index_select take take_along_dim",
        "scatter": (
            "scatter_add scatter_reduce index_put index_add index_copy embedding_dense_backward"
        ),
        "product": "mm bmm mv dot baddbmm addmv",
        "var": "std",
    }.items()
    for name in names.split()
}

_REDUCING_NAMES = """
    sum mean prod var max min argmax argmin any all cumsum cumprod logcumsumexp sort argsort topk
    xor_sum
"""
_REDUCING = frozenset(_REDUCING_NAMES.split())
_LAST_UNLESS_SAID = frozenset(["sort", "argsort", "topk"])


def graph(call: Callable[[Any], Any], inputs: list[Any]) -> list[list[Any]]:
    """Return one row [operator, reads, axes, extent] for each operator of call(inputs), in the
    order of execution, at most MOST.

    reads: indices of rows, INPUT or OTHER. axes: for a reduction or scan "all", "last" (the
    innermost ones), "inner" (others) or "mixed"; "" otherwise. extent: the number of elements along
    these axes; 0 otherwise.
    """
    from torch.utils.weak import WeakIdKeyDictionary

    from .watching_mode import WatchingMode, is_higher_order

    rows: list[list[Any]] = []
    producers: Any = WeakIdKeyDictionary()
    for tensor in _tensors(inputs):
        producers[tensor] = INPUT
    composed = _decompositions()

    class DataflowMode(WatchingMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
        def __torch_dispatch__(
            self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if not is_higher_order(func):
                with self:
                    parts = composed.get(func, func.decompose)
                    if (result := parts(*args, **kwargs)) is not NotImplemented:
                        return result
            result = self.run(func, args, kwargs)
            name, tensors = _plain(func), _tensors([args, kwargs])
            reads = [producers.get(t, OTHER) for t in tensors]
            if name in _FREE or operators.is_free(f"aten.{name}"):
                place = next((r for r in reads if r != OTHER), OTHER)
            elif len(rows) < MOST:
                place = len(rows)
                rows.append(
                    [*_name_operator(name, args, kwargs, tensors), list(dict.fromkeys(reads))]
                )
            else:
                place = OTHER
            for tensor in _tensors([result]):
                # an operator inside a higher-order one may have made it
                if not (is_higher_order(func) and tensor in producers):
                    producers[tensor] = place
            return result

    with DataflowMode():
        call(inputs)
    return [[name, reads, axes, extent] for name, axes, extent, reads in rows]


def _decompositions() -> dict[Any, Any]:
    """Return, by operator, the function that does the same with plain operators."""
    from torch._decomp import decomposition_table

    table = {
        func: parts for func, parts in decomposition_table.items() if _plain(func) in _COMPOSED
    }
    return {func: _addmm if _plain(func) == "addmm" else parts for func, parts in table.items()}


def _plain(func: Any) -> str:
    """Return an operator's plain name: "aten.mul.Tensor" -> "mul". Higher-order operators have one
    word."""
    words = str(func).split(".")
    return words[1] if len(words) > 1 else words[0]


def _addmm(bias: Any, one: Any, other: Any, **scales: Any) -> Any:
    """Decompose addmm without its scales, which are almost always 1; the framework's own
    decomposition multiplies by them."""
    return bias + one @ other


def _name_operator(name: str, args: Any, kwargs: Any, tensors: list[Any]) -> tuple[str, str, int]:
    plain = name.strip("_") or name
    if plain == "pow" and len(args) > 1 and args[1] == 2:
        plain = "mul"
    plain = _SAME.get(plain, plain)
    if plain not in _REDUCING or not tensors:
        return plain, "", 0
    if name in ("max", "min") and len(args) > 1 and hasattr(args[1], "shape"):
        return {"max": "maximum", "min": "minimum"}[name], "", 0  # elementwise, of two tensors
    place = 2 if plain == "topk" else 1
    named = kwargs.get("dim", kwargs.get("dims", args[place] if len(args) > place else None))
    return plain, *_axes(named, tuple(tensors[0].shape), -1 if plain in _LAST_UNLESS_SAID else None)


def _axes(named: Any, shape: tuple[int, ...], default: int | None) -> tuple[str, int]:
    """Return the class and extent of the axes that an operator names."""
    if not isinstance(named, (int, list, tuple)) or isinstance(named, bool) or named == []:
        named = default
    rank = len(shape)
    listed = (
        list(range(rank)) if named is None else [named] if isinstance(named, int) else list(named)
    )
    axes = sorted({int(a) % rank for a in listed}) if rank else []
    extent = 1
    for axis in axes:
        extent *= shape[axis]
    if len(axes) == rank:
        return ("last" if rank == 1 and named is not None else "all"), extent
    innermost = axes == list(range(rank - len(axes), rank))
    return ("last" if innermost else "mixed" if rank - 1 in axes else "inner"), extent


def _tensors(value: Any) -> list[Any]:
    """Return the tensors in nested lists, tuples and mappings, in order."""
    if hasattr(value, "untyped_storage"):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in _tensors(item)] if isinstance(value, (list, tuple)) else []
