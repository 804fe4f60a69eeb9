"""What was done, one JSON object a line: a sitting that ends at any moment loses at most what it
was doing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

OURS = ("identity", "mutant", "timed", "exploit")
PEERS = ("kernelbench", "backendbench")  # evaluators that are shown the same
PEER_PARTS = tuple(f"{peer} {part}" for peer in PEERS for part in ("identity", "mutant", "exploit"))
PARTS = ("made", *OURS, *PEER_PARTS)
GOOD = ("correct", "refused")  # endings of an identity that are nobody's fault


@dataclass(frozen=True)
class Record:
    """One thing that was done. part: of PARTS. subject: a problem's name or an exploit's. outcome:
    a status of an evaluation, "refused", "unavailable" or "timeout"; of a mutant that was made
    "made" or "none". message: as it was given, whole. figures: seconds, bytes and what else was
    noted. conditions: target, device, toolchain
    with the evaluator's digest, protocol."""

    part: str
    subject: str
    outcome: str
    message: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    conditions: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        return self.part, self.subject


class Records:
    """The records of one file, or of this sitting alone where there is none. The last of a key
    counts."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._found: dict[tuple[str, str], Record] = {}
        if path is not None and path.is_file():
            for line in _whole_lines(path):
                record = Record(**json.loads(line))
                self._found[record.key] = record

    def add(self, record: Record) -> None:
        """Written and on the disk when this returns."""
        self._found[record.key] = record
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps(asdict(record)) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def forget(self, outcomes: Iterable[str]) -> None:
        """What ended so is done again, and stays in the file until it is."""
        again = set(outcomes)
        self._found = {
            key: record for key, record in self._found.items() if record.outcome not in again
        }

    def get(self, part: str, subject: str) -> Record | None:
        return self._found.get((part, subject))

    def of(self, part: str) -> list[Record]:
        return [record for record in self._found.values() if record.part == part]


def _whole_lines(path: Path) -> list[str]:
    """Those that were written to their end: a sitting may have been killed. What it left of a line
    is cut off, so that the next begins one."""
    data = path.read_bytes()
    kept = data[: data.rfind(b"\n") + 1]
    if kept != data:
        os.truncate(path, len(kept))
    return kept.decode().splitlines()
