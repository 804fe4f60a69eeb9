"""What this machine can do, and what would enable the rest."""

from __future__ import annotations

import sys

from harness.types import Interpreter, MachineReport, Target
from kevolve_mcp import api
from kevolve_mcp.errors import Unavailable, UsageError
from kevolve_mcp.executors.interpreters import INSTALL_TORCH, USE_LINUX

from .shared import UseCase

TORCH = f"torch is missing: no interpreter found can import it. {INSTALL_TORCH}"
LINUX = f"evaluation needs Linux; here the server only offers knowledge and trees. {USE_LINUX}"


class Describing(UseCase):
    async def describe(self, target: str = "", *, python: str = "") -> api.MachineSummary:
        """Describe what can be evaluated here, why not the rest, and how to enable it. Missing
        parts are reported, never raised."""
        shared, measures = self._shared, Target.parse(target or "cpu").on_host
        executor = shared.pool.get(python)
        missing: list[str] = []
        interpreters: tuple[Interpreter, ...] = ()
        report: MachineReport | None = None
        try:
            interpreters = await shared.pool.interpreters(executor)
            report = await shared.pool.report(executor)
        except (Unavailable, UsageError) as error:
            # otherwise the interpreters' own reasons are more precise
            if any(i.usable for i in interpreters):
                missing.append(str(error))
        if report is not None and measures:
            try:
                report = await shared.pool.report(executor, ceilings=True)
            except Unavailable as error:
                missing.append(f"its ceilings could not be measured: {error}")
        if not sys.platform.startswith("linux"):
            missing.append(LINUX)
        if not any(i.usable for i in interpreters):
            missing.append(TORCH)
        targets = tuple(
            t
            for t in (report.targets if report else ())
            if not target or t.target.partition(":")[0] == target.partition(":")[0]
        )
        missing += [f"{t.target}: {t.reason}" for t in targets if t.mode == "absent" and target]
        return api.machine(
            report,
            targets=targets,
            ceilings=measures,
            interpreters=interpreters,
            devices=await executor.devices(),
            missing=missing,
            home=str(shared.settings.home),
        )
