"""The reader process: turns one file after another into text, under limits of memory and time that
it cannot lift.

A line of JSON in, {"path": …, "kind": "html"}; a line of JSON out, {"text": …} or {"problem": …}.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from .files import read
from .formats import Unreadable, html, pdf

MEMORY = 3 << 30  # bytes of address space


def main() -> None:
    """Answer requests until stdin ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(_answer(Path(order["path"]), order["kind"])), flush=True)


def _answer(path: Path, kind: str) -> dict[str, str]:
    try:
        return {"text": {"html": html, "pdf": pdf}[kind](read(path))}
    except Unreadable as error:
        return {"problem": str(error)}
    except OSError as error:
        return {"problem": error.strerror or str(error)}
    except (MemoryError, RecursionError):
        return {"problem": "reading it takes more memory than allowed"}
    # libraries may raise anything on hostile files; the user gets the message
    except Exception as error:
        return {"problem": f"reading it failed ({type(error).__name__}: {str(error)[:100]})"}


if __name__ == "__main__":
    main()
