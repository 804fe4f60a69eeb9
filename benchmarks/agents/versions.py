"""What stood in an agent's kernel file, by second: the way of one without recorded calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.agents.plan import KERNEL, Plan

EVERY_S = 2.0


@contextmanager
def kept(run: Path, plan: Plan) -> Iterator[None]:
    """Within the block each new text of work/kernel.py becomes versions/SECONDS.py."""
    stop = threading.Event()
    watcher = threading.Thread(target=_watch, args=(run, plan, stop), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def read(run: Path) -> list[tuple[float, str]]:
    """Seconds since the beginning, and the text."""
    files = sorted((run / "versions").glob("*.py"), key=lambda path: float(path.stem))
    return [(float(path.stem), path.read_text(errors="replace")) for path in files]


def _watch(run: Path, plan: Plan, stop: threading.Event) -> None:
    last = ""
    over = False
    while not over:
        over = stop.wait(EVERY_S)  # looks once more after the end
        try:
            text = (run / "work" / KERNEL).read_text(errors="replace")
        except OSError:
            continue
        if text.strip() and text != last:
            last = text
            (run / "versions" / f"{time.time() - plan.began:.1f}.py").write_text(text)
