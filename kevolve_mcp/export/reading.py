"""Reading a package back, every file proved against the manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.types import Candidate, CodecError, from_json
from kevolve_mcp import api
from kevolve_mcp.errors import Conflict, NotFound, UsageError

from .files import sha256
from .manifest import FORMAT, Manifest, Package
from .sources import unpackaged

NEEDED = (
    *(
        "__init__.py",
        "calls.py",
        "modules.py",
        "dispatch.py",
        "op.py",
        "kernel.py",
        "native/__init__.py",
        "reference.py",
    ),
    *("dispatch.json", "measurements.json"),
)


def read_package(folder: Path | str) -> Package:
    """Read a package and verify every file against the manifest. Raises NotFound (no package),
    Conflict (changed files)."""
    path = Path(folder).expanduser().absolute()
    manifest = _read_manifest(path)
    texts: dict[str, str] = {}
    changed = [name for name in NEEDED if name not in manifest.files]
    for name, digest in manifest.files.items():
        file = path / name
        text = _read(file) if _inside(name) and file.is_file() else None
        if text is None or sha256(text) != digest:
            changed.append(name)
        else:
            texts[name] = text
    if changed:
        raise Conflict(
            f"the package differs from its manifest: {', '.join(changed)} changed or missing",
            "its measurements no longer apply; export the kernel again, or evaluate the changed "
            "kernel as a candidate",
        )
    candidate = Candidate(unpackaged(texts["kernel.py"], manifest.edits), manifest.language)
    if candidate.digest != manifest.candidate:
        raise Conflict(
            "kernel.py is not the candidate that the manifest names", "export the kernel again"
        )
    measured = json.loads(texts["measurements.json"])
    as_called = measured.get("as_called")
    return Package(
        path,
        manifest,
        texts["reference.py"],
        path / "reference.py",
        candidate,
        from_json(api.Evaluation, measured["evaluation"]),
        None if as_called is None else from_json(api.Evaluation, as_called),
        texts,
    )


def _read_manifest(path: Path) -> Manifest:
    file = path / "manifest.json"
    if not file.is_file():
        raise NotFound(
            f"{path} is not an exported package: it has no manifest.json",
            "Pass the folder that the end of a session named.",
        )
    try:
        data: Any = json.loads(file.read_bytes())
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise UsageError(
                f"{file} has another format than {FORMAT}",
                "read it with the version of KEvolve that wrote it",
            )
        return from_json(Manifest, data)
    except (ValueError, CodecError) as error:
        raise Conflict(f"{file} cannot be read: {error}", "export the kernel again") from error


def _inside(name: str) -> bool:
    """Whether a manifest names a file of the package itself, or of its folder `native`."""
    return Path(name).name == name or (
        Path(name).parts[0] == "native" and Path(name).parts[1:] == (Path(name).name,)
    )


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None
