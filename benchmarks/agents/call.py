"""Calls a tool from a shell, while `serve` runs.

    python3 benchmarks/agents/call.py RUN tools                   the tools and their arguments
    python3 benchmarks/agents/call.py RUN TOOL '{"name": value}'  or @FILE that holds the JSON
    python3 benchmarks/agents/call.py RUN end 'what was reached'  the run is over

Prints the answer as a model reads it; the exit code is 1 where it is an error. Standard library
only.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

SOCKET = "agent.sock"


def call(run: Path, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """The answer's text, and whether it is an error. Raises SystemExit where nobody serves."""
    os.chdir(run)  # a socket's path may have 107 bytes; a name in the folder is short
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(SOCKET)
        except OSError:
            raise SystemExit(f"nothing serves {run}: the run has ended, or never began") from None
        connection.sendall(json.dumps({"tool": tool, "arguments": arguments}).encode() + b"\n")
        with connection.makefile("rb") as answers:
            line = answers.readline()
    if not line:
        raise SystemExit("the run ended during the call")
    answer = json.loads(line)
    return answer["text"], answer["error"]


def arguments_of(tool: str, words: list[str]) -> dict[str, Any]:
    """Raises SystemExit where it is no JSON object."""
    if tool == "end":
        return {"said": " ".join(words)}
    text = words[0] if words else "{}"
    if text.startswith("@"):
        text = Path(text[1:]).read_text()
    try:
        found = json.loads(text)
    except ValueError as error:
        raise SystemExit(f"the arguments are no JSON: {error}") from None
    if not isinstance(found, dict):
        raise SystemExit('the arguments are a JSON object, e.g. \'{"session_id": "..."}\'')
    return found


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    named, wanted = sys.argv[1:3]
    given = arguments_of(wanted, sys.argv[3:])
    shown, failed = call(Path(named).resolve(), wanted, given)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads the head alone wants no traceback
    print(shown)
    raise SystemExit(1 if failed else 0)
