"""What `kevolve doctor` found, for a reader."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.types import Device, Interpreter, Mode, TargetReport
from kevolve_mcp.server.diagnosis import Diagnosis, DoctorFinding

from .tables import Fitting, block, cells, hanging

MARK = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "missing": ("✗", "red")}
KERNELS: dict[Mode, str] = {
    "execute": "run",
    "verify": "verified only",
    "compile": "compiled only",
    "absent": "not possible",
}
LEAST = 120  # columns from which a row with a sentence is still readable as a row


def machine_view(diagnosis: Diagnosis) -> RenderableType:
    """Return findings by section, the interpreters, the targets, and at the end what to do."""
    parts: list[RenderableType] = [
        Text(f"KEvolve on {diagnosis.machine}", style="bold"),
        *(_line(f) for f in diagnosis.findings),
    ]
    parts += [
        Text(""),
        Text("interpreters (the first usable one evaluates)", style="bold"),
        _interpreters(diagnosis.interpreters),
    ]
    parts += [Text(""), Text("targets", style="bold"), _targets(diagnosis.targets)]
    if diagnosis.devices:
        parts += [Text(""), Text("GPUs", style="bold"), _devices(diagnosis.devices)]
    missing = [f for f in diagnosis.findings if f.state != "ok" and f.remedy]
    if missing:
        parts += [Text(""), Text("what to do", style="bold")]
        parts += [hanging(Text("   "), f"{f.name}: {f.remedy}") for f in missing]
    verdict = (
        "Kernels can be evaluated here."
        if diagnosis.ready
        else "Kernels cannot be evaluated here yet."
    )
    style = "bold green" if diagnosis.ready else "bold red"
    return Group(*parts, Text(""), Text(verdict, style=style))


def _line(finding: DoctorFinding) -> RenderableType:
    mark, style = MARK[finding.state]
    return hanging(Text.assemble("  ", (mark, style)), f"{finding.name}: {finding.message}")


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _interpreters(interpreters: tuple[Interpreter, ...]) -> RenderableType:
    table = _table("", "path", "found as", "python", "torch", "why")
    blocks = []
    for i in interpreters:
        mark = "✓" if i.usable else "✗"
        table.add_row(*cells(mark, i.path, i.origin, i.python, i.torch, i.reason))
        versions = [f"Python {i.python}"] * bool(i.python) + [f"torch {i.torch}"] * bool(i.torch)
        blocks.append(block(f"  {mark} {i.path}", ", ".join((i.origin, *versions)), i.reason))
    return Fitting(table, blocks, LEAST)


def _devices(devices: tuple[Device, ...]) -> RenderableType:
    table = _table("index", "name", "arch", "memory in use", "now", "uuid")
    blocks = []
    for d in devices:
        now = ", ".join([*(["being timed on"] * d.measuring), *d.users]) or "free"
        memory = f"{d.used_bytes >> 20} of {d.memory_bytes >> 20} MiB"
        table.add_row(*cells(str(d.index), d.name, d.arch, memory, now, d.uuid))
        blocks.append(block(f"  {d.index} {d.name} {d.arch}", d.uuid, f"{memory} in use, {now}"))
    return Fitting(table, blocks)


def _targets(targets: tuple[TargetReport, ...]) -> RenderableType:
    """The targets; those with the same properties share a row."""
    alike: dict[tuple[Mode, str, str, str], list[str]] = {}
    for t in targets:
        said = (t.mode, ", ".join(t.languages), ", ".join(t.profilers), t.reason)
        alike.setdefault(said, []).append(t.target)
    table = _table("target", "kernels are", "languages", "profilers", "why")
    blocks = []
    for (mode, languages, profilers, reason), names in alike.items():
        joined, kernels = ", ".join(names), KERNELS[mode]
        table.add_row(*cells(joined, kernels, languages, profilers, reason))
        blocks.append(
            block(
                f"  {joined}",
                f"kernels: {kernels}" + (f", in {languages}" if languages else ""),
                f"profilers: {profilers}" if profilers else "",
                reason,
            )
        )
    return Fitting(table, blocks, LEAST)
