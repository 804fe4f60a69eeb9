"""A user's own `harness` or `knowledge` folder must not stand in for ours: the current folder may
well contain one."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import kevolve_mcp
from kevolve_mcp.errors import UsageError


def check_shadowing(*packages: str) -> None:
    """Raises UsageError when a package would be imported from elsewhere than beside `kevolve_mcp`;
    imports none of them."""
    home = Path(kevolve_mcp.__file__).resolve().parent.parent
    for name in packages:
        spec = find_spec(name)
        places = (
            [spec.origin]
            if spec and spec.origin
            else list((spec.submodule_search_locations or []) if spec else [])
        )
        found = [Path(place).resolve() for place in places]
        if found and all(place.is_relative_to(home / name) for place in found):
            continue
        raise UsageError(
            f"the package {name!r} is found in {', '.join(map(str, found)) or 'no place'}, not in "
            f"KEvolve's own {home / name}",
            "Start the server from another folder or without PYTHONPATH, or rename that folder.",
        )
