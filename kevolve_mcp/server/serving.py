"""Start the server. Imports little: what must be checked before anything else is imported is
checked here."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from kevolve_mcp.lazy import nothing_is_garbage

from .shadow import check_shadowing

if TYPE_CHECKING:
    from kevolve_mcp.settings import Settings

    from .http import HttpOptions


def serve(settings: Settings | None = None, http: HttpOptions | None = None) -> None:
    """Serve stdio until the client closes it; with `http`, serve that until a signal.

    The token leaves the environment: what this process starts, and what that runs, need not know
    it.

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

    given = http.token if http.token is not None else chosen.token.get_secret_value() or None
    serve_http(replace(http, token=given), chosen)
