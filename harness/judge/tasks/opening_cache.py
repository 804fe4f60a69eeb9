"""The cache of opened tasks on this machine: the next opening of the same task is answered without
a process.

An entry holds the facts of a `Task` except its text: shapes, operators, screened baselines, notes.
It holds no seed, input or expected output; these are drawn again for each evaluation. Only
successful openings are remembered, never a refusal.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import stat
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import settings
from ...targets import DeviceFamily
from ...targets.ceilings_cache import MOST_AGE_S
from ...types import PROTOCOL_VERSION, Task, from_json, task_digest, to_json
from ..device.machine import Machine
from . import cache_files
from .task_workers import TaskText

DISTURBED_AGE_S = 3600.0  # lifetime if something else used the device while baselines were timed
MOST_FILES, MOST_BYTES = 500, 64 << 20
_INSTALLED = (".dist-info", ".egg-info")
_UNIQUE = "device"  # the fact that distinguishes a GPU from others of its kind


@dataclass(frozen=True)
class CachedOpening:
    """The result of a look-up. task: None if there is no usable entry. note: since when the task is
    known, or why its entry cannot be used; "" if there is no entry."""

    task: Task | None = None
    note: str = ""


class OpeningCache:
    """The entries of one machine, one file each, in the judge's cache."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._folder = machine, machine.cache / "opened"

    def find(self, family: DeviceFamily, text: TaskText, *, timed: bool) -> CachedOpening:
        """Look a task up. timed: only an entry with timed baselines is usable; otherwise either
        kind is."""
        if not self._safe:
            return CachedOpening()
        key = self._key(family, text)
        path = self._path(key)
        try:
            data = cache_files.read(path)
        except FileNotFoundError:
            return CachedOpening()
        except OSError as error:
            return CachedOpening(None, f"{path} cannot be read ({error.strerror})")
        try:
            opened, lasts_s, was_timed, task = _decode(data, key, text)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            return CachedOpening(
                None, f"{path} is damaged ({type(error).__name__}: {str(error)[:200]})"
            )
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(opened))
        if not 0 <= time.time() - opened <= lasts_s:
            return CachedOpening(
                None, f"it was opened {when}, and this machine may have changed since"
            )
        if timed and not was_timed:
            return CachedOpening()
        if changed := [
            name for name, digest in task.neighbours.items() if _digest(text.folder, name) != digest
        ]:
            return CachedOpening(None, f"{', '.join(changed)} beside the task changed")
        return CachedOpening(task, when)

    def keep(
        self,
        family: DeviceFamily,
        text: TaskText,
        task: Task,
        *,
        timed: bool,
        disturbed: bool = False,
    ) -> str:
        """Remember an opening, only briefly if its timing was disturbed. Returns why that failed,
        "" if it did not."""
        if not self._safe:
            return ""
        key = self._key(family, text)
        facts = {name: value for name, value in to_json(task).items() if name != "source"}
        lasts_s = DISTURBED_AGE_S if disturbed else MOST_AGE_S
        entry = {
            "key": key,
            "opened": time.time(),
            "lasts_s": lasts_s,
            "timed": timed,
            "task": facts,
        }
        try:
            cache_files.write(
                self._path(key),
                json.dumps(entry).encode(),
                most_files=MOST_FILES,
                most_bytes=MOST_BYTES,
            )
        except OSError as error:
            return f"{self._folder} cannot be written ({error.strerror})"
        return ""

    def forget(self, family: DeviceFamily, text: TaskText) -> None:
        """Remove an entry that proved wrong."""
        self._path(self._key(family, text)).unlink(missing_ok=True)

    @property
    def _safe(self) -> bool:
        """Whether candidates on this machine cannot write to the cache: below `landlock` they can
        write wherever their user can."""
        return self._machine.level != "process"

    def _path(self, key: dict[str, str]) -> Path:
        return (
            self._folder
            / f"{hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:40]}.json"
        )

    def _key(self, family: DeviceFamily, text: TaskText) -> dict[str, str]:
        """Return everything that determines the result of an opening except the contents of the
        task's neighbours."""
        environment = self._machine.environment_of(family)
        return {
            "task": task_digest(text.source, text.held_out),
            "path": os.path.abspath(text.path) if text.path else "",
            "beside": _names(_companions(text)),
            "target": family.NAME,
            "device": environment.device,
            "toolchain": environment.toolchain,
            "protocol": str(PROTOCOL_VERSION),
            "isolation": environment.isolation,
            "allocation": environment.allocation,
            "packages": _names(_installed_packages()),
            **{
                f"fact {name}": value
                for name, value in environment.facts.items()
                if name != _UNIQUE
            },
            **settings.opening(),  # the environment names the others
        }


def _decode(data: bytes, key: dict[str, str], text: TaskText) -> tuple[float, float, bool, Task]:
    entry: dict[str, Any] = json.loads(data)
    if entry["key"] != key:
        raise ValueError("it belongs to another task or machine")
    task = from_json(Task, {**entry["task"], "source": text.source})
    if task.digest != task_digest(text.source, text.held_out, task.neighbours):
        raise ValueError("its digest differs")
    return float(entry["opened"]), float(entry["lasts_s"]), bool(entry["timed"]), task


def _digest(folder: str, name: str) -> str:
    """Return the digest of a file below a task's folder, computed as in the task's own process; ""
    if it is missing. The name comes from that process and is not trusted."""
    path = os.path.join(folder, name)
    if not folder or os.path.isabs(name) or ".." in Path(name).parts:
        return ""
    try:
        # non-blocking, since opening a pipe would wait
        with open(path, "rb", opener=lambda p, flags: os.open(p, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            digest = hashlib.sha256()
            while part := file.read(1 << 20):
                digest.update(part)
            return digest.hexdigest()
    except OSError:
        return ""


def _companions(text: TaskText) -> list[str]:
    """Return the entries of the task's folder with names that its text imports: a new one could
    take precedence over the module that was imported. Other new files, such as kernels, do not
    count."""
    try:
        tree = ast.parse(text.source) if text.folder else ast.Module([], [])
        names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        names |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
        stems = {name.partition(".")[0] for name in names}
        return [
            name for name in os.listdir(text.folder or os.sep) if name.partition(".")[0] in stems
        ]
    except (OSError, ValueError, SyntaxError, RecursionError):  # reported when it is opened
        return []


def _installed_packages() -> list[str]:
    """Return the packages that this interpreter can import, with their versions."""
    folders = [p for p in sys.path if os.path.isdir(p)]
    return [
        f"{folder}/{name}"
        for folder in folders
        for name in os.listdir(folder)
        if name.endswith(_INSTALLED)
    ]


def _names(names: list[str]) -> str:
    return hashlib.sha256("\0".join(sorted(names)).encode()).hexdigest()
