"""The search tree and the list of sessions, for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from kevolve_mcp import api
from kevolve_mcp.quantities import speedup
from kevolve_mcp.synthesis.wording import one_line

from .figures import best_text
from .tables import Fitting, block, cells

STATUS_STYLE = {"correct": "green", "needs_review": "yellow"}
HYPOTHESIS_SHOWN = 70


def tree_view(session: api.Session, nodes: Sequence[api.Node]) -> RenderableType:
    """Return the tree under its task. A crossover is under its first parent and names the second.
    Parameters equal to the first parent's are left out."""
    root = Tree(
        Text(
            f"{session.task} on {session.target} in {session.language} (n0: the strongest "
            "baseline, 1.00×)",
            style="bold",
        )
    )
    branches: dict[str, Tree] = {}
    params: dict[str, dict[str, Any]] = {}
    best = session.best.id if session.best else ""
    for node in nodes:
        above = branches.get(node.parents[0], root) if node.parents else root
        known = params.get(node.parents[0], {}) if node.parents else {}
        branches[node.id] = above.add(_label(node, best, known))
        params[node.id] = node.params
    head = [Text(f"{session.id}  {session.state}", style="bold")]
    if session.reason:
        head.append(Text(f"ended     {session.reason}"))
    head.append(Text(f"best      {best_text(session.best, session.correct)}"))
    if session.exported:
        head.append(Text(f"exported  {_exported(session.exported)}, as a user calls it"))
    return Group(*head, root)


def _exported(export: api.Exported) -> str:
    return f"{export.node}  {speedup(export.fitness, export.interval)}"


def _label(node: api.Node, best: str, parent_params: Mapping[str, Any]) -> Text:
    figure = speedup(node.fitness, node.interval) if node.status == "correct" else node.status
    label = Text.assemble((node.id, "bold"), "  ", (figure, STATUS_STYLE.get(node.status, "red")))
    if node.id == best:
        label.append("  best", style="bold green")
    label.append(f"  [{node.origin or node.role}]", style="cyan" if node.origin else "dim")
    if len(node.parents) > 1:
        label.append(f" with {', '.join(node.parents[1:])}", style="dim")
    changed = {
        k: v for k, v in node.params.items() if k not in parent_params or parent_params[k] != v
    }
    said = ", ".join(f"{k}={v}" for k, v in changed.items()) or node.hypothesis
    label.append(f"  {one_line(said, HYPOTHESIS_SHOWN)}", style="dim")
    return label


def sessions_table(sessions: Sequence[api.Session]) -> RenderableType:
    """Return one line per session, in the order given (newest first)."""
    if not sessions:
        return Text("No sessions yet. `kevolve optimize TASK` starts one.")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("session", "state", "task", "target", "language", "goal", "nodes", "best"):
        table.add_column(column, no_wrap=True)
    blocks = []
    for s in sessions:
        best = f"{_exported(s.exported)} exported" if s.exported else best_text(s.best, s.correct)
        table.add_row(
            *cells(s.id, s.state, s.task, s.target, s.language, s.goal, str(s.nodes), best)
        )
        said = (
            f"{s.state}, {s.task} on {s.target} in {s.language}, goal {s.goal}, {s.nodes} nodes, "
            f"best {best}"
        )
        # the id is never wrapped, so that it can be copied
        blocks.append(block(s.id, said))
    return Fitting(table, blocks)
