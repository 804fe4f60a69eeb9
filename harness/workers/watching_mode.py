"""The dispatch mode that all modes of the workers are made of. Import it where torch may be loaded.

Higher-order operators, such as `cond`, `while_loop` and `flex_attention`, receive functions that
they call. torch hands such an operator to a mode only if the mode says that it supports this, and
then runs everything inside it without the mode. So these functions enter the mode again.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch._prims  # registers its operators
from torch._ops import HigherOrderOperator, OperatorBase
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from . import operators

# operators have names, and are counted by the operator that calls them; the others compute nothing
_NOT_ENTERED = (torch.Tensor, OperatorBase, torch.ScriptObject, torch.device, type)
# Namespaces of which some operators are known to compute nothing, and all of their operators; texts
# that add others are loaded later.
_WATCHED = ("aten", "prims", "profiler")
# with what is registered for those that compute nothing
_FRAMEWORKS = {
    name: torch._C._dispatch_dump(name) if operators.is_free(name.replace("::", ".")) else ""
    for name in torch._C._dispatch_get_all_op_names()
    if name.split("::")[0] in _WATCHED
}


class WatchingMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
    """Sees the operators that run in its `with` block, including those that functions given to
    higher-order operators run. What a higher-order operator itself computes is seen as one
    operator. Subclasses define `__torch_dispatch__`, and run operators by `run`."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._entered: list[contextlib.AbstractContextManager[Any]] = []

    def __enter__(self) -> Any:
        _is_unchanged.cache_clear()
        self._entered.append(uncompiled())
        self._entered[-1].__enter__()
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *details: Any) -> None:
        super().__exit__(*details)  # type: ignore[no-untyped-call]
        self._entered.pop().__exit__(*details)

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator that the mode received."""
        if not is_higher_order(func):
            return func(*args, **kwargs)
        args, kwargs = tree_map(self._entering, (args, kwargs))
        # its own __call__, which has checked the arguments already, may refuse these functions
        return HigherOrderOperator.__call__(func, *args, **kwargs)  # type: ignore[no-untyped-call]

    def _entering(self, value: Any) -> Any:
        """Return a function that enters the mode and calls this one; other values as they are."""
        if not callable(value) or isinstance(value, _NOT_ENTERED):
            return value
        called: Callable[..., Any] = value

        @functools.wraps(called)
        def entering(*args: Any, **kwargs: Any) -> Any:
            with self:
                return called(*args, **kwargs)

        return entering


def is_higher_order(func: Any) -> bool:
    """Return whether an operator calls functions that it is given."""
    return isinstance(func, HigherOrderOperator)


def full_name(func: Any) -> str:
    """Return an operator's name with its namespace: "aten.mean.dim", "higher_order.cond". One that
    a text has added to the framework's own is named "added.aten.mean.mine", and so is one that it
    has implemented anew."""
    if is_higher_order(func):
        return f"higher_order.{func.name()}"
    name = str(func)
    own = name.split(".")[0] not in _WATCHED or _is_unchanged(func.name())
    return name if own else f"added.{name}"


@functools.cache
def _is_unchanged(name: str) -> bool:
    """Return whether an operator, as "aten::mean.dim", is the framework's. One that computes
    nothing may have no other implementation either; others count in any case."""
    registered = _FRAMEWORKS.get(name)
    return registered is not None and registered in ("", torch._C._dispatch_dump(name))


def uncompiled() -> contextlib.AbstractContextManager[Any]:
    """Return a context in which `torch.compile` calls functions as they are. Inside a mode it would
    do so anyway, but raise an error where a whole graph was asked for, as `flex_attention` itself
    does, and leave these functions uncompiled, or impossible to compile, afterwards."""
    stance = getattr(torch.compiler, "set_stance", None)  # since torch 2.6
    return contextlib.nullcontext() if stance is None else stance("force_eager")
