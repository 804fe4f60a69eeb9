"""Constructs a model in the place of one that is gone, as may happen in any program, so that a
cache by the `id` of a module or a parameter shows.

The id of an object is its address. A freed address goes to one of the next objects of the same
size, but which one depends on the holes elsewhere in the heap: left to chance, one new model in
five takes a place of the last one. So the holes before the freed places are filled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

MOST_FILLERS = 4096  # objects that fill holes


class Places:
    """The places of a model and its parameters. Create it while the model exists: what it needs
    later would otherwise take these places itself."""

    def __init__(self, model: Any) -> None:
        kind = type(model)
        self._parameters = _Filling(
            _maker_of_parameters(), [id(each) for each in getattr(model, "parameters", tuple)()]
        )
        # a destructor would meet objects that were never initialised
        plain = getattr(kind, "__new__", None) is object.__new__ and not hasattr(kind, "__del__")
        self._model = _Filling(lambda: object.__new__(kind), [id(model)] if plain else [])

    def take(self) -> list[Any]:
        """Once the model is gone: return a bare object of its class in its place, in a list that
        alone holds it; an empty one where that cannot be. The places of the parameters are then the
        next to be allocated, as long as this object exists."""
        found = self._model.run()
        self._parameters.run()
        self._parameters.release()
        return [found.pop(place) for place in list(found)]


class _Filling:
    """Makes objects until they take these places. Keeps those that do not."""

    def __init__(self, make: Callable[[], Any], places: Sequence[int]) -> None:
        self.places = places
        self._make = make
        self._fillers: list[Any] = []
        self._found: dict[int, Any] = {}

    def run(self) -> dict[int, Any]:
        """Return the objects in these places. Allocates little else before it has found them."""
        make, places, found, fillers = self._make, self.places, self._found, self._fillers
        while len(found) < len(places) and len(fillers) < MOST_FILLERS:
            filler = make()
            if id(filler) in places:
                found[id(filler)] = filler
            else:
                fillers.append(filler)
        return found

    def release(self) -> None:
        """Free these places, to be allocated in order, after one that goes to the tensor of which a
        parameter is made."""
        for place in reversed(self.places):  # what is freed last is allocated first
            self._found.pop(place, None)
        del self._fillers[-1:]


def _maker_of_parameters() -> Callable[[], Any]:
    """Return what makes parameters without a tensor for each, in a third of the time."""
    import torch

    make, kind, data = torch.Tensor._make_subclass, torch.nn.Parameter, torch.empty(0)
    return lambda: make(kind, data, False)
