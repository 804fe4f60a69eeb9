"""A process of its own that asks for the nearest pages, and says to whom it made connections.

    python -m tests.retrieval.asking MODEL FILE SERVER COUNT

MODEL: "bag", or what KEVOLVE_VECTORS may name. SERVER: "" for none. One line of JSON comes out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CONNECTED = list[str]()


def start(model: str, file: Path, server: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.retrieval.asking", model, str(file), server, str(count)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> dict[str, list[str]]:
    said, wrong = process.communicate(timeout=120)
    assert process.returncode == 0, wrong
    found: dict[str, list[str]] = json.loads(said)
    return found


def _noted(event: str, given: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        CONNECTED.append(str(given[1]))
    elif event == "socket.getaddrinfo":
        CONNECTED.append(str(given[:2]))


def main(model: str, file: str, server: str, count: str) -> None:
    sys.addaudithook(_noted)
    from kevolve_mcp.retrieval import Meaning
    from kevolve_mcp.retrieval.models import Encoder, load
    from knowledge import Passage

    from .bag import Bag

    bag = Bag()
    passages = [
        Passage(f"guidance/p{n}", f"Part {n}", f"passage about topic{n} and other{n}")
        for n in range(int(count))
    ]
    meaning = Meaning(
        passages,
        lambda: Encoder("bag", bag) if model == "bag" else load(model, server),
        Path(file),
        server,
        wait_s=120,
    )
    found = meaning.nearest("topic7 other7", [passage.page for passage in passages], 3)
    meaning.close()
    said = {"pages": list(found.pages), "note": found.note, "connected": sorted(set(CONNECTED))}
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
