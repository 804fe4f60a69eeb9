"""The fork servers of a machine, one for each set of libraries that workers need preloaded."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path

from ...targets import DeviceFamily, cpu
from ...types import IsolationLevel
from ...workers import placement
from ..process_environment import harness_root
from . import bubblewrap
from .fork_server_process import ForkServer
from .worker import Sharing

# servers in bubblewrap, where each task folder needs its own: more than a judge keeps tasks open
MOST_ALIKE = 4
_PACKAGES = ("site-packages", "dist-packages")


class Servers:
    """The fork servers, each started when it is first needed, inside bubblewrap at that level.
    scratch: a private folder for the levels where workers have no mount namespace of their own.
    sharing: returns the shared lock of a family's device, None for the host."""

    def __init__(
        self,
        cache: Path,
        scratch: str,
        sharing: Callable[[DeviceFamily], Sharing | None] = lambda _: None,
    ) -> None:
        self._cache, self._scratch, self._sharing = cache, scratch, sharing
        self._servers: dict[tuple[str, ...], ForkServer] = {}

    def bare(self, level: IsolationLevel) -> ForkServer:
        """Return a server without any library."""
        return self._server("bare", level, [], cpu, {})

    def candidates(
        self, family: DeviceFamily, level: IsolationLevel, readable: tuple[str, ...] = ()
    ) -> ForkServer:
        """Return the server for candidates on a device family, and for tasks that are not timed.
        readable: additional paths for such a task."""
        return self._server(
            family.NAME, level, family.preload(), family, self._variables(family), readable
        )

    def tasks(
        self,
        family: DeviceFamily,
        level: IsolationLevel,
        readable: tuple[str, ...],
        *,
        allocation: bool = True,
    ) -> ForkServer:
        """Return the server for timed tasks and the candidates timed against them. readable:
        additional paths for such a task. allocation: see ForkServer."""
        return self._server(
            f"tasks on {family.NAME}{'' if allocation else ', default allocation'}",
            level,
            [*family.preload(), *(["torch._inductor.compile_fx"] if allocation else [])],
            family,
            {**placement.NO_DEVICE_YET, **self._variables(family)},
            readable,
            allocation=allocation,
            compiled=self.inductor if allocation and family.COMPILES_AHEAD else "",
        )

    def triton(self, level: IsolationLevel, *, interpret: bool) -> ForkServer:
        """Return a server with Triton's interpreter, or with its compilers; importing triton
        decides which."""
        more = "triton.runtime.interpreter" if interpret else "triton.compiler"
        environment = {"TRITON_INTERPRET": "1"} if interpret else {}
        name = "interpreter" if interpret else "compilers"
        return self._server(
            name, level, ["torch", "triton", "triton.testing", more], cpu, environment
        )

    @property
    def inductor(self) -> str:
        """The folder in which fork servers of tasks, before any task is loaded, have compiled what
        all tasks need. Tasks may read it."""
        return str((self._cache / "inductor").absolute())

    def _variables(self, family: DeviceFamily) -> dict[str, str]:
        """Return the family's environment variables, and the folder in which a fork server itself
        compiles; workers have their own folders."""
        folders = (
            {"TRITON_CACHE_DIR": str((self._cache / "triton").absolute())}
            if family.COMPILES_AT_LAUNCH
            else {}
        )
        return {**family.environment(), **folders}

    def _server(
        self,
        name: str,
        level: IsolationLevel,
        preload: list[str],
        family: DeviceFamily,
        environment: dict[str, str],
        readable: tuple[str, ...] = (),
        *,
        allocation: bool = True,
        compiled: str = "",
    ) -> ForkServer:
        inside = level == "bubblewrap"
        key = (name, "in bubblewrap", *readable) if inside else (name,)
        alike = [known_key for known_key in self._servers if inside and known_key[:2] == key[:2]]
        if key not in self._servers and len(alike) >= MOST_ALIKE:
            self._servers.pop(alike[0]).close()
        if key in self._servers:
            self._servers[key] = self._servers.pop(key)  # move it to the end, as the latest used
        if key not in self._servers:
            wrapper: list[str] = []
            if inside:
                written = bubblewrap.folders(
                    self._scratch, compiled, environment.get("TRITON_CACHE_DIR", "")
                )
                wrapper = bubblewrap.wrapper(
                    (*readable_paths(), *readable), written, family.nodes()
                )
            self._servers[key] = ForkServer(
                preload,
                allocation=allocation,
                environment=environment,
                compiled=compiled,
                wrapper=wrapper,
                sharing=self._sharing(family),
            )
        return self._servers[key]

    def close(self) -> None:
        """End all servers and their workers."""
        for server in tuple(self._servers.values()):  # a running request may still add one
            server.close()


@cache
def readable_paths() -> tuple[str, ...]:
    """Return what the interpreter needs: its installation, its libraries, and this harness."""
    paths = {
        sys.prefix,
        sys.base_prefix,
        sys.exec_prefix,
        *sysconfig.get_paths().values(),
        os.path.dirname(sys.executable),
    }
    paths |= {os.path.realpath(p) for p in paths} | {
        os.path.dirname(os.path.realpath(sys.executable))
    }
    paths.add(f"{harness_root()}/harness")
    paths |= {p for p in sys.path[1:] if p.endswith(_PACKAGES)}
    for folder in [p for p in paths if p.endswith(_PACKAGES) and os.path.isdir(p)]:
        # packages that are links to another place
        linked = {
            os.path.realpath(entry.path) for entry in os.scandir(folder) if entry.is_symlink()
        }
        paths |= {
            os.path.dirname(p) if os.path.dirname(p).endswith(_PACKAGES) else p for p in linked
        }
    return tuple(sorted(p for p in paths if os.path.isabs(p) and os.path.exists(p)))


def importable() -> tuple[str, ...]:
    """Return the folders of sys.path that a task may import from, such as editable installs."""
    return tuple(p for p in sys.path[1:] if os.path.isdir(p) and not everybodys(p))


def everybodys(folder: str) -> bool:
    """Return whether a folder is the home, a temporary folder or above one of these, and so
    contains much that a task must not see."""
    places = (os.path.expanduser("~"), "/tmp", "/var/tmp", "/dev/shm")
    inside = f"{os.path.realpath(folder).rstrip('/')}/"
    return any(f"{os.path.realpath(place)}/".startswith(inside) for place in places)
