"""Finding the Python that evaluates: the user's own, which has torch, rather than ours. Also the
advice, shared by every surface, for machines where something is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from harness.types import Interpreter

INSTALL_TORCH = (
    "Install torch into the interpreter that should evaluate (pip install torch) or beside KEvolve "
    "(pip install 'kevolve-mcp[torch]'), or name one that has it with KEVOLVE_PYTHON."
)
USE_LINUX = (
    "Evaluate on a Linux machine over SSH: configure the server with the command ssh and the "
    "arguments HOST uvx kevolve-mcp."
)


_PROBE = """
import json, sys
from importlib import metadata
def version(name):
    try: return metadata.version(name)
    except metadata.PackageNotFoundError: return ""
print(json.dumps({"python": sys.version.split()[0], "info": list(sys.version_info[:2]),
                  "platform": sys.platform, "torch": version("torch"),
                  "triton": version("triton")}))
"""


def find_interpreters(
    named: str | None, configured: str, near: Path | None
) -> tuple[Interpreter, ...]:
    """Return interpreters in order of preference; the first usable one evaluates.

    An interpreter that was named or configured ends the search, usable or not: it must not be
    replaced silently.

    Args:
        named: The `python` argument.
        configured: KEVOLVE_PYTHON.
        near: The task's file or folder, whose .venv (or one above it) is considered.
    """
    interpreters: list[Interpreter] = []
    seen: set[tuple[str, str]] = set()
    for path, origin in _places(named, configured, near):
        # python and python3 of one environment count once
        key = (os.path.realpath(os.path.dirname(path)), os.path.realpath(path))
        if key in seen:
            continue
        seen.add(key)
        interpreters.append(_probe(path, origin))
        if origin in ("python argument", "KEVOLVE_PYTHON"):
            break
    return tuple(interpreters)


def _places(named: str | None, configured: str, near: Path | None) -> Iterator[tuple[str, str]]:
    if named:
        yield named, "python argument"
    if configured:
        yield configured, "KEVOLVE_PYTHON"
    if near is not None:
        start = near.resolve()
        for folder in (start, *start.parents):
            if (folder / ".venv" / "bin" / "python").exists():
                yield str(folder / ".venv" / "bin" / "python"), ".venv beside or above the task"
                break
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if os.environ.get(variable):
            yield os.path.join(os.environ[variable], "bin", "python"), variable
    yield sys.executable, "KEvolve's own"
    if system := shutil.which("python3"):
        yield system, "python3 on the PATH"


def _probe(path: str, origin: str) -> Interpreter:
    if not os.path.exists(path):
        return Interpreter(path, origin, False, "the file does not exist")
    try:
        done = subprocess.run(
            [path, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=30, check=True
        )
        facts = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return Interpreter(path, origin, False, f"it does not run: {str(error)[:200]}")
    reason = ""
    if facts["info"] < [3, 10]:
        reason = f"Python {facts['python']} is too old: the evaluator needs 3.10 or newer"
    elif not facts["torch"]:
        reason = f"torch is not installed there; install it with: {path} -m pip install torch"
    elif facts["platform"] != "linux":
        reason = "evaluation needs Linux; run KEvolve on a Linux machine, for instance over ssh"
    return Interpreter(
        path,
        origin,
        not reason,
        reason or "has torch",
        facts["python"],
        facts["torch"],
        facts["triton"],
    )
