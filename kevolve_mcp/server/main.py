"""Start the server. Imports little: what must be checked before anything else is imported is checked here."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kevolve_mcp import __version__
from kevolve_mcp.errors import KEvolveError

from .shadow import check_shadowing

if TYPE_CHECKING:
    from kevolve_mcp.settings import Settings


def serve(settings: Settings | None = None) -> None:
    """Serve stdio until the client closes it. Raises KEvolveError when it cannot start."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    check_shadowing("harness", "knowledge")
    from .build import build_server

    build_server(settings).run("stdio")


def main(arguments: Sequence[str] | None = None) -> int:
    """`kevolve-mcp`: serve stdio. Messages go to stderr; stdout belongs to the protocol."""
    parser = argparse.ArgumentParser(prog="kevolve-mcp", description="KEvolve's MCP server over stdio; settings: KEVOLVE_*.")
    parser.add_argument("--version", action="version", version=f"kevolve-mcp {__version__}")
    parser.add_argument("--home", default=None, help="folder of database, artifacts and exports")
    parser.add_argument("--python", default=None, help="interpreter that evaluates")
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    try:
        check_shadowing("harness", "knowledge")
        from kevolve_mcp.settings import Settings

        serve(Settings(**given))
    except KEvolveError as error:
        print(f"kevolve-mcp: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
