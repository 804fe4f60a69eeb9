"""Faces of packages whose modules are loaded when a name is used: importing all of them takes
longer than most commands."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def loader(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    Args:
        package: Its name.
        homes: The names that its face shows, by the module that each stands in; "" is a module
            itself.
    """
    modules = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        home = modules.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f".{home or name}", package)
        return getattr(module, name) if home else module

    return load


@contextmanager
def nothing_is_garbage() -> Iterator[None]:
    """Around imports and what is built of them, collect nothing: that takes a tenth of their
    time, and finds nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
