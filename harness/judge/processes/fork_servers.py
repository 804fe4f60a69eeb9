"""The fork servers of a machine: one for each set of libraries that workers need from the start."""

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

# in bubblewrap, where every task's folder has its own: more than the tasks that a judge holds open
MOST_ALIKE = 4
_PACKAGES = ("site-packages", "dist-packages")


class Servers:
    """Each is started when it is first needed, inside bubblewrap where that is the level. `scratch`
    is a private folder for the levels without a mount namespace of each worker's own. sharing: of a
    family's device, None for the host."""

    def __init__(
        self,
        cache: Path,
        scratch: str,
        sharing: Callable[[DeviceFamily], Sharing | None] = lambda _: None,
    ) -> None:
        self._cache, self._scratch, self._sharing = cache, scratch, sharing
        self._servers: dict[tuple[str, ...], ForkServer] = {}

    def bare(self, level: IsolationLevel) -> ForkServer:
        """One without any library."""
        return self._server("bare", level, [], cpu, {})

    def candidates(
        self, family: DeviceFamily, level: IsolationLevel, readable: tuple[str, ...] = ()
    ) -> ForkServer:
        """For candidates on a device family, and for tasks that are not timed. readable: what these
        may see besides."""
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
        """For tasks that are timed, and the candidates beside them. readable: what such a task may
        see besides. allocation: see ForkServer."""
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
        """One that holds Triton's interpreter, or its compilers: which of both is settled when
        triton is imported."""
        more = "triton.runtime.interpreter" if interpret else "triton.compiler"
        environment = {"TRITON_INTERPRET": "1"} if interpret else {}
        name = "interpreter" if interpret else "compilers"
        return self._server(
            name, level, ["torch", "triton", "triton.testing", more], cpu, environment
        )

    @property
    def inductor(self) -> str:
        """Where the fork servers of tasks, which see no task, have compiled what all tasks need.
        Tasks may read it."""
        return str((self._cache / "inductor").absolute())

    def _variables(self, family: DeviceFamily) -> dict[str, str]:
        """The family's, and where a fork server itself compiles; workers have folders of their
        own."""
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
            self._servers[key] = self._servers.pop(key)  # the last one that was asked for
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
        """End all of them, and with them their workers."""
        for server in tuple(self._servers.values()):  # a request that goes on may ask for one more
            server.close()


@cache
def readable_paths() -> tuple[str, ...]:
    """What the interpreter needs: its installation, its libraries, and this harness."""
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
        # kept elsewhere
        linked = {
            os.path.realpath(entry.path) for entry in os.scandir(folder) if entry.is_symlink()
        }
        paths |= {
            os.path.dirname(p) if os.path.dirname(p).endswith(_PACKAGES) else p for p in linked
        }
    return tuple(sorted(p for p in paths if os.path.isabs(p) and os.path.exists(p)))


def importable() -> tuple[str, ...]:
    """Folders from which a task may import besides: also what is installed in place."""
    return tuple(p for p in sys.path[1:] if os.path.isdir(p) and not everybodys(p))


def everybodys(folder: str) -> bool:
    """Whether a folder is one in which everything lies: the home, the temporary folders, what is
    above them."""
    places = (os.path.expanduser("~"), "/tmp", "/var/tmp", "/dev/shm")
    inside = f"{os.path.realpath(folder).rstrip('/')}/"
    return any(f"{os.path.realpath(place)}/".startswith(inside) for place in places)
