"""Start the server. It imports little, since it checks what must be checked before other imports:
a `harness` or `knowledge` folder of the user, perhaps in the current folder, must not be imported
in place of ours."""

from __future__ import annotations

import logging
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import kevolve_mcp
from kevolve_mcp.errors import UsageError
from kevolve_mcp.lazy import nothing_is_garbage

if TYPE_CHECKING:
    from kevolve_mcp.settings import Settings

    from .http import HttpOptions


def serve(settings: Settings | None = None, http: HttpOptions | None = None) -> None:
    """Serve stdio until the client closes it; with `http`, serve HTTP until a signal.

    The token is removed from the environment, so that no child process inherits it.

    Raises:
        KEvolveError: It cannot start.
    """
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    check_shadowing("harness", "knowledge")
    from kevolve_mcp.settings import Settings, variable

    chosen = settings or Settings()
    os.environ.pop(variable("token"), None)
    if http is None:
        with nothing_is_garbage():
            from .build import build_server

            server = build_server(chosen)
        server.run("stdio")
        return
    from dataclasses import replace

    from .http import serve_http

    token = http.token if http.token is not None else chosen.token.get_secret_value() or None
    serve_http(replace(http, token=token), chosen)


def check_shadowing(*packages: str) -> None:
    """Check, without importing them, that packages come from the folder of `kevolve_mcp`. Raises
    UsageError."""
    home = Path(kevolve_mcp.__file__).resolve().parent.parent
    for name in packages:
        spec = find_spec(name)
        places = (
            [spec.origin]
            if spec and spec.origin
            else list((spec.submodule_search_locations or []) if spec else [])
        )
        where = [Path(place).resolve() for place in places]
        if where and all(place.is_relative_to(home / name) for place in where):
            continue
        raise UsageError(
            f"the package {name!r} is found in {', '.join(map(str, where)) or 'no folder'}, not in "
            f"KEvolve's own {home / name}",
            "Start the server from another folder or without PYTHONPATH, or rename that folder.",
        )
