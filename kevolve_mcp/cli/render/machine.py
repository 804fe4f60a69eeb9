"""What `kevolve doctor` found, for a reader."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kevolve_mcp.cli.diagnosis import Diagnosis, Finding

from .figures import cells

MARK = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "missing": ("✗", "red")}


def machine_view(found: Diagnosis) -> RenderableType:
    """Findings by section, the interpreters, the targets, and at the end what to do."""
    parts: list[RenderableType] = [
        Text("KEvolve on this machine", style="bold"),
        *(_line(f) for f in found.findings),
    ]
    parts += [
        Text(""),
        Text("interpreters (the first usable one evaluates)", style="bold"),
        _interpreters(found),
    ]
    parts += [Text("targets", style="bold"), _targets(found)]
    if found.devices:
        parts += [Text("GPUs", style="bold"), _devices(found)]
    missing = [f for f in found.findings if f.state != "ok" and f.remedy]
    if missing:
        parts += [
            Text("what to do", style="bold"),
            *(Text(f"  {f.name}: {f.remedy}") for f in missing),
        ]
    verdict = (
        "Kernels can be evaluated here." if found.ready else "Kernels cannot be evaluated here yet."
    )
    return Group(*parts, Text(verdict, style="bold green" if found.ready else "bold red"))


def _line(finding: Finding) -> Text:
    mark, style = MARK[finding.state]
    return Text.assemble("  ", (mark, style), f" {finding.name}: {finding.message}")


def _interpreters(found: Diagnosis) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("", "path", "found as", "python", "torch", "why"):
        table.add_column(column)
    for i in found.interpreters:
        table.add_row(
            *cells("✓" if i.usable else "✗", i.path, i.origin, i.python, i.torch, i.reason)
        )
    return table


def _devices(found: Diagnosis) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("index", "name", "arch", "memory in use", "now", "uuid"):
        table.add_column(column)
    for d in found.devices:
        now = ", ".join([*(["being timed on"] * d.measuring), *d.users]) or "free"
        table.add_row(
            *cells(
                str(d.index),
                d.name,
                d.arch,
                f"{d.used_bytes >> 20} of {d.memory_bytes >> 20} MiB",
                now,
                d.uuid,
            )
        )
    return table


def _targets(found: Diagnosis) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("target", "here", "languages", "profilers", "why"):
        table.add_column(column)
    for t in found.targets:
        table.add_row(
            *cells(t.target, t.mode, ", ".join(t.languages), ", ".join(t.profilers), t.reason)
        )
    return table
