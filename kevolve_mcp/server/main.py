"""Start the server. Imports little: what must be checked before anything else is imported is
checked here."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kevolve_mcp import __version__
from kevolve_mcp.errors import KEvolveError, UsageError

from .shadow import check_shadowing

if TYPE_CHECKING:
    from kevolve_mcp.settings import Settings

    from .http import HttpOptions

HTTP_ONLY = (
    "host",
    "port",
    "token",
    "allow_remote",
    "allow_host",
    "root",
    "allow_python",
    "tasks_from_root",
)


def serve(settings: Settings | None = None, http: HttpOptions | None = None) -> None:
    """Serve stdio until the client closes it; with `http`, serve that until a signal. Raises
    KEvolveError when it cannot start.

    The token leaves the environment: what this process starts, and what that runs, need not know
    it."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    check_shadowing("harness", "knowledge")
    from kevolve_mcp.settings import Settings, variable

    chosen = settings or Settings()
    os.environ.pop(variable("token"), None)
    if http is None:
        with _nothing_is_garbage():
            from .build import build_server

            server = build_server(chosen)
        server.run("stdio")
        return
    from dataclasses import replace

    from .http import serve_http

    given = http.token if http.token is not None else chosen.token.get_secret_value() or None
    serve_http(replace(http, token=given), chosen)


@contextmanager
def _nothing_is_garbage() -> Iterator[None]:
    """While the server is imported and built: collecting took a tenth of the time until its first
    answer."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def main(arguments: Sequence[str] | None = None) -> int:
    """`kevolve-mcp`: serve stdio, or HTTP. Messages go to stderr; stdout belongs to the
    protocol."""
    given = {
        name: value
        for name, value in vars(_parser().parse_args(arguments)).items()
        if value is not None
    }
    try:
        check_shadowing("harness", "knowledge")
        from kevolve_mcp.settings import Settings

        settings = {name: given[name] for name in ("home", "python") if name in given}
        serve(Settings(**settings), _http(given))
    except KEvolveError as error:
        print(f"kevolve-mcp: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _http(given: dict[str, object]) -> HttpOptions | None:
    """What the options say of HTTP, None for stdio. Raises UsageError for options that have no
    meaning there."""
    stray = [f"--{name.replace('_', '-')}" for name in HTTP_ONLY if name in given]
    if not given.get("http"):
        if stray:
            raise UsageError(
                f"{', '.join(stray)} has no meaning over stdio", "Add --http, or leave it out."
            )
        return None
    from .http import HttpOptions

    names = {"root": "roots", "allow_host": "allow_hosts"}
    return HttpOptions(
        **{
            names.get(name, name): tuple(value) if isinstance(value, list) else value  # type: ignore[arg-type]
            for name, value in given.items()
            if name in HTTP_ONLY
        }
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kevolve-mcp",
        description="KEvolve's MCP server, over stdio unless --http is given; settings: KEVOLVE_*.",
    )
    parser.add_argument("--version", action="version", version=f"kevolve-mcp {__version__}")
    parser.add_argument("--home", help="folder of database, artifacts and exports")
    parser.add_argument("--python", help="interpreter that evaluates")
    parser.add_argument(
        "--http", action="store_true", default=None, help="serve streamable HTTP; see docs/http.md"
    )
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (8765); 0 takes a free one")
    parser.add_argument(
        "--token", help="the bearer token; better: KEVOLVE_TOKEN; default: one kept in the home"
    )
    parser.add_argument(
        "--root",
        type=Path,
        action="append",
        help="paths name files below it (the current folder); repeatable",
    )
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        default=None,
        help="listen on an address that others reach",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        help="a further name of this machine that clients use; repeatable",
    )
    parser.add_argument(
        "--allow-python",
        action="store_true",
        default=None,
        help="callers may choose the interpreter",
    )
    parser.add_argument(
        "--tasks-from-root",
        action="store_true",
        default=None,
        help="callers may not send the text of a task",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
