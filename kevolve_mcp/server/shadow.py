"""A user's own `harness` or `knowledge` folder must not stand in for ours: the current folder may well contain one."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import kevolve_mcp
from kevolve_mcp.errors import UsageError


def check_shadowing(*packages: ModuleType) -> None:
    """Raises UsageError when a package lies elsewhere than beside `kevolve_mcp`."""
    home = Path(kevolve_mcp.__file__).resolve().parent.parent
    for package in packages:
        found = Path(package.__file__ or "").resolve().parent
        if found != home / package.__name__:
            raise UsageError(
                f"the package {package.__name__!r} was found in {found}, which is not KEvolve's own in {home / package.__name__}",
                "Start the server from another folder or without PYTHONPATH, or rename that folder.",
            )
