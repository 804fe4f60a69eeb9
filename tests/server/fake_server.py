"""`python -m tests.server.fake_server HOME`: the server over stdio with a fake executor."""

from __future__ import annotations

import sys
from pathlib import Path

from .conftest import make_server

if __name__ == "__main__":
    make_server(Path(sys.argv[1])).run("stdio")
