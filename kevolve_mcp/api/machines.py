"""One machine as every surface shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.types import Ceilings, Device, Interpreter, MachineReport, TargetReport
from kevolve_mcp.synthesis.machine import about


@dataclass(frozen=True)
class MachineSummary:
    """What a machine can do, and what would enable the rest."""

    device: str = ""
    """The device, as in evaluations."""
    about: str = ""
    """The processor in words."""
    ceilings: Ceilings | None = None
    """Its measured ceilings."""
    toolchain: str = ""
    """Versions of torch, compiler, Python and evaluator."""
    isolation_level: str = ""
    """The interpreter in use."""
    isolation: dict[str, str] = field(default_factory=dict)
    """By level: "available", or why not."""
    targets: tuple[TargetReport, ...] = ()
    interpreters: tuple[Interpreter, ...] = ()
    missing: tuple[str, ...] = ()
    """What would enable more, one sentence each."""
    home: str = ""
    """The folder of sessions and settings."""
    devices: tuple[str, ...] = ()
    """The GPUs, one sentence each, as they are now."""


def machine(
    report: MachineReport | None,
    *,
    targets: tuple[TargetReport, ...],
    ceilings: bool,
    interpreters: tuple[Interpreter, ...],
    devices: Sequence[Device],
    missing: Sequence[str],
    home: str,
) -> MachineSummary:
    """Show a machine.

    Args:
        report: The judge's answer; None where there is no judge.
        targets: The requested targets of the report.
        ceilings: Whether to show measured ceilings.
        interpreters: The interpreters found.
        devices: The GPUs.
        missing: What would enable more; repeated sentences are shown once.
        home: The folder of sessions and settings.
    """
    environment = report.environment if report else None
    return MachineSummary(
        device=environment.device if environment else "",
        about=about(environment, "cpu") if environment else "",
        ceilings=report.ceilings if report and ceilings else None,
        toolchain=environment.toolchain if environment else "",
        isolation_level=environment.isolation if environment else "",
        isolation=dict(report.isolation) if report else {},
        targets=targets,
        interpreters=interpreters,
        missing=tuple(dict.fromkeys(missing)),
        home=home,
        devices=tuple(map(str, devices)),
    )
