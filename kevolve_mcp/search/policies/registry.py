"""Policies by name: the built-in ones and those that installed packages offer."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from .base import FakePolicy, SelectionPolicy
from .evolutionary import Evolutionary
from .greedy import Greedy
from .mcts import TreeSearch

GROUP = "kevolve.policies"
DEFAULT = Greedy.name

_BUILT_IN: dict[str, Callable[..., SelectionPolicy]] = {
    p.name: p for p in (Greedy, Evolutionary, TreeSearch)
}
_FOR_TESTS: dict[str, Callable[..., SelectionPolicy]] = {FakePolicy.name: FakePolicy}


def policy_names() -> tuple[str, ...]:
    """Return the names that `create_policy` accepts, the default first. The fake policy is accepted
    but not listed."""
    return (*_BUILT_IN, *sorted({e.name for e in entry_points(group=GROUP)} - set(_BUILT_IN)))


def create_policy(name: str = DEFAULT, **options: Any) -> SelectionPolicy:
    """Create the policy of this name with these options.

    A third party registers a SelectionPolicy class (or a callable that returns one) under the entry
    point group "kevolve.policies"; built-in names cannot be taken over. Raises ValueError: unknown
    name, unknown or bad option, an entry point that does not load or yields something else.
    """
    factory = _BUILT_IN.get(name) or _FOR_TESTS.get(name) or _load(name)
    try:
        policy = factory(**options)
    except TypeError as error:
        raise ValueError(
            f"selection policy {name!r} does not accept these options: {error}"
        ) from error
    if not isinstance(policy, SelectionPolicy):
        raise ValueError(
            f"the entry point {name!r} of {GROUP} yields {policy!r}, which is not a SelectionPolicy"
        )
    return policy


def _load(name: str) -> Callable[..., SelectionPolicy]:
    entries: list[EntryPoint] = [e for e in entry_points(group=GROUP) if e.name == name]
    if not entries:
        raise ValueError(
            f"unknown selection policy {name!r}; available: {', '.join(policy_names())}"
        )
    if len({e.value for e in entries}) > 1:
        raise ValueError(
            f"several installed packages offer the selection policy {name!r}: "
            f"{', '.join(sorted(e.value for e in entries))}"
        )
    try:
        factory: Callable[..., SelectionPolicy] = entries[0].load()
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"the selection policy {name!r} ({entries[0].value}) cannot be loaded: {error}"
        ) from error
    return factory
