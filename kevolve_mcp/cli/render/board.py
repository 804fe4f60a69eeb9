"""The live progress of a run: a board computed from events, drawn on a terminal or logged line by
line."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.types import Budget, Spent
from kevolve_mcp import api
from kevolve_mcp.actions import sentences
from kevolve_mcp.driver import events
from kevolve_mcp.quantities import duration, microseconds, speedup
from kevolve_mcp.visible import visible

from ..calls import command
from .figures import best_text, device_use

LESSONS_SHOWN = 5
UNLIMITED = Budget()
NOTHING_SPENT = Spent()


@dataclass(frozen=True)
class Board:
    """The state of a run for display. nodes: of the whole session. working: the slow call in
    progress."""

    session: api.Session | None = None
    nodes: int = 0
    failures: int = 0
    correct: int = 0
    best: api.Node | None = None
    budget: Budget = UNLIMITED
    spent: Spent = NOTHING_SPENT
    working: str = "opening the session"
    fraction: float = 0.0
    lessons: tuple[str, ...] = ()
    over: str = ""

    def after(self, event: events.Event) -> Board:
        """Return the board after `event`."""
        match event:
            case events.SessionOpened(session):
                return replace(
                    self,
                    session=session,
                    nodes=session.nodes,
                    correct=session.correct,
                    best=session.best,
                    budget=session.budget,
                    spent=session.spent,
                )
            case events.Working(stage, message, fraction):
                return replace(self, working=f"{stage}: {message}", fraction=fraction)
            case events.NodeEvaluated(told):
                failed = told.node.status != "correct"
                return replace(
                    self,
                    nodes=self.nodes + 1,
                    failures=self.failures + failed,
                    correct=self.correct + (not failed),
                    spent=told.spent,
                    working="",
                    fraction=0.0,
                )
            case events.BestImproved(node):
                return replace(self, best=node)
            case events.SkillsLearned(node, text):
                return replace(self, lessons=(*self.lessons, f"{node}  {text}")[-LESSONS_SHOWN:])
            case events.Remark() as remark:
                return replace(self, lessons=(*self.lessons, _remark(remark))[-LESSONS_SHOWN:])
            case events.Terminated(reason, _, spent, _):
                return replace(
                    self, over=reason, spent=spent, working="re-validating the winner", fraction=0.0
                )
            case events.SearchFinished() | events.PackageExported():
                return replace(self, working="", fraction=1.0)
            case _:
                return self


def budget_left(budget: Budget, spent: Spent) -> str:
    """Return what is left: "12 of 40 evaluations, 1 min 05 s left"; "no limit" without a limit."""
    parts = []
    if budget.evaluations is not None:
        parts.append(
            f"{max(0, budget.evaluations - spent.evaluations)} of {budget.evaluations} evaluations"
        )
    if budget.seconds is not None:
        parts.append(duration(budget.seconds - spent.seconds))
    if budget.device_seconds is not None:
        parts.append(f"{duration(budget.device_seconds - spent.device_seconds)} of device time")
    if budget.tokens is not None:
        parts.append(f"{max(0, budget.tokens - spent.tokens):,} tokens")
    if budget.usd is not None:
        parts.append(f"{max(0.0, budget.usd - spent.usd):.2f} US dollars")
    return f"{', '.join(parts)} left" if parts else "no limit"


def board_view(board: Board) -> RenderableType:
    """Return the live display."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    if board.session:
        s = board.session
        named = f"{s.id}  {s.task} on {s.target} in {s.language}, goal {s.goal}"
        grid.add_row("session", Text(visible(named)))
    grid.add_row(
        "nodes",
        f"{board.nodes} evaluated" + (f", {board.failures} not correct" if board.failures else ""),
    )
    grid.add_row(
        "best", Text(best_text(board.best, board.correct), style="green" if board.best else "dim")
    )
    grid.add_row("budget", budget_left(board.budget, board.spent))
    if board.working:
        grid.add_row("now", Text(visible(board.working), overflow="ellipsis", no_wrap=True))
        grid.add_row("", ProgressBar(total=1.0, completed=board.fraction, width=40))
    lessons = [
        Text(f"  {visible(line)}", style="dim", overflow="ellipsis", no_wrap=True)
        for line in board.lessons
    ]
    return Group(grid, *([Text("learned", style="bold"), *lessons] if lessons else []))


def plain_line(event: events.Event, board: Board) -> str | None:
    """Return one line for a log, None for events that a log does not need. board: after the
    event."""
    match event:
        case events.SessionOpened(session, resumed):
            verb = "resumed" if resumed else "opened"
            return (
                f"{verb} {session.id}: {session.task} on {session.target} in {session.language}, "
                f"goal {session.goal}"
            )
        case events.Baseline(cases, notes):
            times = [
                f"{c.name}: "
                + ", ".join(f"{n} {microseconds(t)}" for n, t in c.baselines_us.items())
                for c in cases
            ]
            return "\n".join([f"baseline {line}" for line in times] + [f"note: {n}" for n in notes])
        case events.NodeEvaluated(told):
            left = budget_left(board.budget, board.spent)
            speed = (
                speedup(told.node.fitness, told.node.interval)
                if told.node.status == "correct"
                else ""
            )
            return (
                f"{told.node.id} {told.node.status} {speed}".rstrip()
                + f" | {board.nodes} nodes, {left}"
            )
        case events.SkillsLearned(node, text):
            return f"{node} learned: {text}"
        case events.BestImproved(node, previous):
            before = f" (was {speedup(previous.fitness)})" if previous else ""
            return f"{node.id} best: {speedup(node.fitness, node.interval)}{before}"
        case events.Remark() as remark:
            return f"note: {_remark(remark)}"
        case events.Terminated(reason, detail, _, use):
            return (
                f"search over: {reason}"
                + (f": {detail.splitlines()[0].rstrip('.')}" if detail else "")
                + (f"; {device_use(use)}" if use.wall_s else "")
                + "; re-validating the winner"
            )
        case events.PackageExported(package):
            return f"exported {package}"
        case _:
            return None


def _remark(remark: events.Remark) -> str:
    return "; ".join(filter(None, (remark.text, sentences(remark.actions, command))))
