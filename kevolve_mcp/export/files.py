"""Texts on disk: a folder that appears at once, a file that changes at once, and digests."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from kevolve_mcp.errors import StoreError


def json_text(data: Any) -> str:
    """Indented JSON with a line end."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def sha256(text: str) -> str:
    """The digest of the text's UTF-8 bytes, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_folder(wanted: Path, texts: dict[str, str]) -> Path:
    """Write the files into a temporary folder beside the destination, then rename it: no half
    folder is ever seen.

    A taken name gets a number ("name_2"); the path that was used is returned. Raises StoreError.
    """
    try:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=".export-", dir=wanted.parent))
    except OSError as error:
        raise StoreError(
            f"cannot write a package into {wanted.parent}: {error}",
            "choose another folder or free some space",
        ) from error
    try:
        for name, text in texts.items():
            (building / name).parent.mkdir(exist_ok=True)
            (building / name).write_bytes(text.encode())
        building.chmod(0o755)
        return _publish(building, wanted)
    except OSError as error:
        raise StoreError(
            f"cannot write the package {wanted}: {error}",
            "choose another folder or free some space",
        ) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _publish(building: Path, wanted: Path) -> Path:
    number = 1
    while True:
        path = wanted if number == 1 else wanted.with_name(f"{wanted.name}_{number}")
        if not path.exists() and not path.is_symlink():
            try:
                os.rename(building, path)
                return path
            except OSError:
                if not path.exists():
                    raise
        number += 1


def replace_file(file: Path, text: str) -> None:
    """Write a file, complete or not at all, with its folders. Raises StoreError."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(text.encode())
            os.replace(temporary, file)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot write {file}: {error}",
            "choose another path, free some space or check the permissions",
        ) from error
