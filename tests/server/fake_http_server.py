"""`python -m tests.server.fake_http_server HOME ROOT [OPTIONS]`: the server over HTTP with a fake
executor.

OPTIONS: fields of HttpOptions as JSON, `limits` as an object of its own. KEVOLVE_TOKEN as for the
real program.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.server.http import HttpOptions, Limits, serve_http
from kevolve_mcp.sessions import Service
from kevolve_mcp.settings import Settings

if __name__ == "__main__":
    given = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    limits = Limits(**given.pop("limits", {}))
    settings = Settings(home=Path(sys.argv[1]))
    token = settings.token.get_secret_value() or None
    options = HttpOptions(
        token=token, roots=(Path(sys.argv[2]),), limits=limits, **{"port": 0, **given}
    )
    serve_http(options, settings, lambda s: Service(s, lambda python, near: FakeExecutor()))
