"""Packages whose modules are loaded when a name is used, since importing all of them takes longer
than most commands."""

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
        homes: Its public names by the module that defines them; under "" the names that are modules
            themselves.
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
    """Suspend garbage collection during imports: it takes a tenth of their time and finds
    nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
