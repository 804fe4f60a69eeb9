"""What this machine can do, and what would enable the rest."""

from __future__ import annotations

import sys

from harness.types import Interpreter, MachineReport, Target
from kevolve_mcp.errors import Unavailable, UsageError
from kevolve_mcp.executors import remedies
from kevolve_mcp.synthesis.machine import about

from .types import MachineView
from .use_case import UseCase

TORCH = f"torch is missing: no interpreter that was found can import it. {remedies.TORCH}"
LINUX = f"evaluation needs Linux; here the server keeps knowledge and trees. {remedies.LINUX}"


class Describing(UseCase):
    async def describe(self, target: str = "", *, python: str = "") -> MachineView:
        """What can be evaluated here, why not the rest, and how to get it. Never fails for
        something that is missing: that is what it is there to say."""
        shared, measures = self._shared, Target.parse(target or "cpu").on_host
        executor = shared.pool.get(python)
        missing: list[str] = []
        interpreters: tuple[Interpreter, ...] = ()
        report: MachineReport | None = None
        try:
            interpreters = await shared.pool.interpreters(executor)
            report = await shared.pool.report(executor)
        except (Unavailable, UsageError) as error:
            # otherwise the interpreters' own reasons say it better
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
        environment = report.environment if report else None
        return MachineView(
            device=environment.device if environment else "",
            about=about(environment, "cpu") if environment else "",
            ceilings=report.ceilings if report and measures else None,
            toolchain=environment.toolchain if environment else "",
            isolation_level=environment.isolation if environment else "",
            isolation=dict(report.isolation) if report else {},
            targets=targets,
            interpreters=interpreters,
            missing=tuple(dict.fromkeys(missing)),
            home=str(shared.settings.home),
            devices=tuple(str(d) for d in await executor.devices()),
        )
