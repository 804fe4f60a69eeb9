"""Stands between an MCP client and the server (stdio), notes every message, and refuses calls once
the budget is used up. Standard library only: any client may start it.

    python benchmarks/agents/proxy.py RUN

RUN: the folder of a run, see plan.py. Each line of RUN/transcript.jsonl is one message:
{"at": seconds of the epoch, "from": "client" | "server" | "proxy", "message": …}. A line from the
proxy itself says that a client connected. Time that is over, or calls that are used up, answer a
call of a tool with an error that says so; what ends a session is let through.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

# these neither search nor measure more, and a run has to be able to end
ENDING = ("session_finish", "job_wait", "job_cancel", "tree_view")


class Proxy:
    """Relays lines in both directions. Each side has a thread; the lock keeps lines whole."""

    def __init__(self, run: Path) -> None:
        self._plan: dict[str, Any] = json.loads((run / "plan.json").read_text())
        self._path = run / "transcript.jsonl"
        self._calls = _calls_so_far(self._path)
        self._lock = threading.Lock()
        self._log = self._path.open("a", encoding="utf-8")
        self._errors = (run / "server.log").open("ab")

    def run(self) -> int:
        """Until the client closes its side; the server's exit code."""
        self._note("proxy", {"connected": os.getpid()})
        environment = {**os.environ, **self._plan["environment"]}
        with subprocess.Popen(
            self._plan["server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
        ) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            back = threading.Thread(target=self._back, args=(server.stdout,), daemon=True)
            back.start()
            self._forth(server.stdin)
            code = server.wait()
            back.join()
        self._log.close()
        self._errors.close()
        return code

    def _forth(self, server: IO[bytes]) -> None:
        try:
            for line in sys.stdin.buffer:
                message = self._note("client", line)
                refusal = self._refusal(message)
                if refusal:
                    self._answer(message["id"], refusal)
                else:
                    server.write(line)
                    server.flush()
            server.close()
        except BrokenPipeError:
            pass  # the server ended: its exit code says so, and the client reads the end of stdout

    def _back(self, server: IO[bytes]) -> None:
        for line in server:
            self._note("server", line)
            self._say(line)

    def _refusal(self, message: Any) -> str:
        """Why a call is not let through, "" where it is."""
        if not isinstance(message, dict) or message.get("method") != "tools/call":
            return ""
        self._calls += 1
        if (message.get("params") or {}).get("name") in ENDING:
            return ""
        if time.time() > self._plan["began"] + self._plan["seconds"]:
            return f"The {self._plan['seconds'] / 60:.0f} minutes of this run are over"
        if self._calls > self._plan["calls"]:
            return f"The {self._plan['calls']} calls of this run are used up"
        return ""

    def _answer(self, identifier: Any, refusal: str) -> None:
        hint = "End it: session_finish(session_id=...), then say what you reached."
        error = {"code": "budget", "message": refusal, "hint": hint, "retryable": False}
        result = {
            "content": [{"type": "text", "text": f"{refusal}. {hint}"}],
            "structuredContent": error,
            "isError": True,
            "resultType": "complete",
        }
        message = {"jsonrpc": "2.0", "id": identifier, "result": result}
        line = json.dumps(message).encode() + b"\n"
        self._note("proxy", line)
        self._say(line)

    def _say(self, line: bytes) -> None:
        with self._lock:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    def _note(self, who: str, what: bytes | dict[str, Any]) -> Any:
        """The message that a line holds; the line itself where it is not JSON."""
        message: Any = what
        if isinstance(what, bytes):
            try:
                message = json.loads(what)
            except ValueError:
                message = what.decode("utf-8", "backslashreplace")
        row = json.dumps({"at": time.time(), "from": who, "message": message})
        with self._lock:
            self._log.write(row + "\n")
            self._log.flush()
        return message


def _calls_so_far(path: Path) -> int:
    """A client that connects again goes on with the same budget."""
    if not path.exists():
        return 0
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return sum(
        row["from"] == "client"
        and isinstance(row["message"], dict)
        and row["message"].get("method") == "tools/call"
        for row in rows
    )


if __name__ == "__main__":
    sys.exit(Proxy(Path(sys.argv[1])).run())
