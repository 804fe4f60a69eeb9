"""Which folders of documents are registered for which target: each has a small folder in the home,
with a file that the user may edit.

HOME/documents/NAME/source.json   {"folder": "/path", "target": "acme:x1"}
HOME/documents/NAME/review.json   {"guide.md": {"signals": ["memory_bound"], "families":
                                  ["matmul"]}}: what a document is about
HOME/documents/NAME/passages-….db derived: the passages, to search in (passage_index.py)
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevolve_mcp.actions import Action

from ..errors import DocumentError
from ..families import FAMILIES
from .proposing import Labels

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
_VENDOR = re.compile(r"[a-z][a-z0-9]{0,30}")
_ARCH = re.compile(r"[a-z0-9][a-z0-9_]{0,30}")
_FAMILIES = {"nvidia": "cuda", "amd": "hip", "intel": "cpu", "x86": "cpu", "arm": "cpu"}
MAX_LABELS = 20


@dataclass(frozen=True)
class Source:
    """One registered folder. place: the registration's own folder in the home."""

    name: str
    folder: Path
    target: str
    place: Path

    @property
    def review(self) -> Path:
        return self.place / "review.json"


def target_of(vendor: str, arch: str) -> str:
    """Return a target, "acme:x1", or "acme" without an architecture. Raises DocumentError."""
    vendor, arch = vendor.strip().lower(), arch.strip().lower()
    if family := _FAMILIES.get(vendor):
        raise DocumentError(
            f"the target family for {vendor!r} is {family!r}.",
            "docs/targets.md lists the targets.",
            Action("give", setting="vendor", value=family),
        )
    if not _VENDOR.fullmatch(vendor):
        raise DocumentError(
            f"{vendor!r:.60} is not a valid vendor.",
            "Use letters and digits, beginning with a letter: acme, cpu, cuda, hip …",
            Action("give", setting="vendor"),
        )
    if arch and not _ARCH.fullmatch(arch):
        raise DocumentError(
            f"{arch!r:.60} is not a valid architecture.",
            "Use letters, digits and _: x1, sm_90, gfx942 …",
            Action("give", setting="arch"),
        )
    return f"{vendor}:{arch}" if arch else vendor


def check_name(name: str) -> str:
    """Return the name. Raises DocumentError if it is invalid."""
    if not _NAME.fullmatch(name):
        raise DocumentError(
            f"{name!r:.60} is not a valid name.",
            "Use at most 41 lower case letters, digits, - and _: x1-manuals.",
            Action("give", setting="name"),
        )
    return name


def sources(home: Path) -> tuple[tuple[Source, ...], tuple[str, ...]]:
    """Return the registered folders by name, and what is wrong with unreadable registrations."""
    found, problems = [], []
    try:
        places = sorted(home.iterdir())
    except FileNotFoundError:
        return (), ()
    except OSError as error:
        return (), (f"registered documents cannot be listed: {error.strerror} ({home})",)
    for place in places:
        if not (_NAME.fullmatch(place.name) and (place / "source.json").exists()):
            continue
        try:
            said = _json(place / "source.json")
            vendor, _, arch = str(said["target"]).partition(":")
            found.append(Source(place.name, Path(said["folder"]), target_of(vendor, arch), place))
        except (KeyError, TypeError, DocumentError) as error:
            problems.append(
                f"the registration {place.name!r} cannot be read ({error}); remove it and add it "
                "again"
            )
    return tuple(found), tuple(problems)


def register(source: Source, review: Mapping[str, Labels]) -> None:
    """Write both files, each completely or not at all."""
    source.place.mkdir(parents=True, exist_ok=True)
    _write(
        source.review,
        {
            path: {"signals": about.signals, "families": about.families}
            for path, about in review.items()
        },
    )
    _write(source.place / "source.json", {"folder": str(source.folder), "target": source.target})


def forget(source: Source) -> None:
    """Remove the registration with all derived data; the documents stay."""
    # removed first, so that nobody searches it from here on
    (source.place / "source.json").unlink(missing_ok=True)
    shutil.rmtree(source.place)


def reviewed(source: Source) -> dict[str, Labels]:
    """Return the labels in the review file, by path. Raises DocumentError naming file, document and
    field."""
    if not source.review.exists():
        return {}
    said = _json(source.review)
    return {path: _labels(source.review, path, labels) for path, labels in said.items()}


def _labels(file: Path, path: str, said: Any) -> Labels:
    where = f"{file}: {path!r:.80}"
    if not isinstance(said, dict) or not set(said) <= {"signals", "families"}:
        raise DocumentError(
            f"{where} must be a mapping of signals and families.",
            'Write {"signals": [], "families": []}.',
        )
    lists = {}
    for name in ("signals", "families"):
        words = said.get(name, [])
        if (
            not isinstance(words, list)
            or len(words) > MAX_LABELS
            or not all(isinstance(w, str) and len(w) < 80 for w in words)
        ):
            raise DocumentError(
                f"{where}: {name} must be a list of at most {MAX_LABELS} words.",
                f'Write "{name}": ["one", "two"].',
            )
        lists[name] = tuple(words)
    for family in lists["families"]:
        if family not in FAMILIES:
            raise DocumentError(
                f"{where}: {family!r} is not an operator family.",
                f"Accepted: {', '.join(sorted(FAMILIES))}.",
            )
    return Labels(lists["signals"], lists["families"])


def _json(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DocumentError(
            f"{path} cannot be read: {str(error)[:200]}.", "Fix it, or add the folder again."
        ) from error
    if not isinstance(said, dict):
        raise DocumentError(f"{path} must be one mapping.", "Fix it, or add the folder again.")
    return said


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=".new-", delete=False
    ) as file:
        json.dump(content, file, indent=1, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, path)
