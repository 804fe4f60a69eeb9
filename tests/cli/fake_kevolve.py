"""The program `kevolve` as a process of its own, with the scripted executor in its server; for
tests that stop it."""

from __future__ import annotations

from pathlib import Path

from kevolve_mcp.cli import main, serve

if __name__ == "__main__":
    serve.SERVER = ("-P", str(Path(__file__).parents[1] / "driver" / "fake_server.py"))
    main()
