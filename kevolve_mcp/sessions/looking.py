"""Read-only views: sessions, their trees and the pages of `pages`, as text in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import UsageError
from kevolve_mcp.quantities import times
from kevolve_mcp.search import Node, Tree, no_winner
from kevolve_mcp.synthesis.wording import number

from . import pages
from .home import Home, LookingUseCase

if TYPE_CHECKING:
    from kevolve_mcp.store import SessionRecord, Store

    from .trees import Trees

TEMPLATE = "template"  # a section of a session; all others are of a node or an evaluation


async def session(shared: Home, record: SessionRecord) -> api.Session:
    """Return the current state of the session."""
    store = await shared.store()
    return await shared.thread(_session, store, shared.trees, record)


def _session(store: Store, trees: Trees, record: SessionRecord) -> api.Session:
    tree = trees.load(store, record.id, to_show=True)
    answered = tree.answered()
    open_asks = store.asks.open(record.id)
    open_seqs = {a.seq for a in open_asks}
    waiting = [
        a
        for a in tree.asks
        if a.role == "start" and a.seq not in answered and a.seq not in open_seqs
    ]
    return api.session(
        record,
        store.tasks.get(record.task),
        tree,
        store.sessions.spent(record.id),
        open_asks=len(open_asks),
        waiting_starts=len(waiting),
        exported=_exported(store, record),
    )


def _exported(store: Store, record: SessionRecord) -> api.Exported | None:
    ended = record.outcome
    if ended is None:
        return None
    return api.exported(ended.node, store.evaluations.get(record.id, ended.measured).evaluation)


class Looking(LookingUseCase):
    async def tree(
        self,
        session_id: str = "",
        *,
        node_id: str = "",
        evaluation_id: str = "",
        diff_base: str = "",
        section: str = "",
        cursor: int = 0,
        detailed: bool = False,
    ) -> api.View:
        """Return the page that the arguments name: sessions, a tree, a node, an evaluation, a
        difference, or a session's template. Raises NotFound, UsageError."""
        if session_id:
            await self._check_opened(session_id)
        shared = self._shared
        store = await shared.store()
        if section and section not in (*pages.SECTIONS, TEMPLATE):
            raise UsageError(
                f"unknown section {section!r}",
                f"Sections: {', '.join((*pages.SECTIONS, TEMPLATE))}.",
            )
        if section == TEMPLATE and (evaluation_id or node_id or diff_base or not session_id):
            raise UsageError(
                "the template belongs to a session, not to a node or an evaluation",
                "",
                Action("write_template", "shows it", session=session_id),
            )
        if evaluation_id:
            return await shared.thread(
                pages.evaluation_page, store, session_id, evaluation_id, section, cursor
            )
        if not session_id:
            if node_id or diff_base:
                raise UsageError(
                    "a node was named without its session",
                    "Name the session, too: node ids count per session.",
                )
            return await shared.thread(_sessions, store, shared.trees, cursor)
        record = await shared.thread(store.sessions.get, session_id)
        if section == TEMPLATE:
            return await shared.thread(_template, store, record, cursor)
        tree = await shared.thread(shared.trees.load, store, record.id, to_show=True)
        if diff_base:
            return await shared.thread(
                pages.difference_page, store, record, tree, node_id, diff_base, cursor
            )
        if node_id:
            return await shared.thread(
                pages.node_page, store, record, tree, node_id, section, cursor
            )
        view = await session(shared, record)
        return _tree(view, tree, cursor, detailed)

    async def source(self, session_id: str, node_id: str) -> str:
        """Return a node's whole text. Raises NotFound."""
        shared = self._shared
        store = await shared.store()
        node = await shared.thread(store.nodes.get, session_id, node_id)
        return (await shared.thread(store.candidates.get, node.candidate)).source

    async def report(self, session_id: str) -> str:
        """Return a session as Markdown. Raises NotFound."""
        from kevolve_mcp.export import SessionFacts, session_report

        shared = self._shared
        store = await shared.store()

        def work() -> str:
            record = store.sessions.get(session_id)
            tree = shared.trees.load(store, record.id, to_show=True)
            evaluations = {
                n.evaluation: store.evaluations.get(record.id, n.evaluation).evaluation
                for n in tree.nodes
            }
            ended = record.outcome
            confirmed, measured = (
                store.evaluations.get(record.id, name).evaluation if ended else None
                for name in ((ended.confirmed, ended.measured) if ended else ("", ""))
            )
            facts = SessionFacts(
                id=record.id,
                task=store.tasks.get(record.task),
                target=record.target,
                language=record.language,
                goal=record.goal,
                budget=record.budget,
                spent=store.sessions.spent(record.id),
                tree=tree,
                policy=record.selection,
                seed=record.seed,
                state=record.state,
                reason=record.reason,
                winner=ended.node if ended else None,
                evaluations=evaluations,
                confirmed=confirmed,
                exported=measured,
                package=ended.package if ended else "",
            )
            return session_report(facts)

        return await shared.thread(work)


def _sessions(store: Store, trees: Trees, cursor: int) -> api.View:
    summaries = store.sessions.list()
    lines = []
    for s in summaries:
        best = (
            f"best {s.best} at {times(s.best_fitness)}"
            if s.best and s.best_fitness is not None
            else "no best node"
        )
        r = s.session
        lines.append(
            f"{r.id}: {r.state}, {s.task_name} on {r.target} in {r.language}, goal {r.goal}, "
            f"{s.nodes} nodes, {best}"
        )
    return api.view(
        "sessions",
        f"{number(len(summaries), 'session')}, the newest first",
        "\n".join(lines),
        cursor,
        sessions=tuple(_session(store, trees, s.session) for s in summaries[:20]),
    )


def _template(store: Store, record: SessionRecord, cursor: int) -> api.View:
    from kevolve_mcp.synthesis import template_candidate

    source = template_candidate(store.tasks.get(record.task), record.language).source
    head = (
        f"Template for {record.id} in {record.language}: it fails verification until its body is "
        "filled in"
    )
    return api.view("template", head, source, cursor)


def _tree(view: api.Session, tree: Tree, cursor: int, detailed: bool) -> api.View:
    best = tree.best()
    shown: list[api.Node] = [api.node(tree, n) for n in tree.nodes]
    lines: list[str] = []
    on_path = {n.id for n in tree.trajectory(best.id)} if best else set()

    def draw(node: Node, depth: int) -> None:
        mark = (
            "*" if best is not None and node.id == best.id else "+" if node.id in on_path else "-"
        )
        line = pages.node_line(api.node(tree, node), detailed)
        wrong = f" | not confirmed ({node.refuted})" if node.refuted else ""
        lines.append(f"{'  ' * depth}{mark} {line}{wrong}")
        for child in tree.children(node.id):
            if child.parents[0] == node.id:
                draw(child, depth + 1)

    for root in tree.children("n0"):
        draw(root, 0)
    figure = f"best {best.id} at {times(best.score)}" if best else no_winner(view.correct)
    state = f"{view.state}{f' ({view.reason})' if view.reason else ''}"
    ended = view.exported
    exported = (
        f", exported {ended.node} at {times(ended.fitness)}" if ended and ended.fitness else ""
    )
    head = (
        f"{view.id}: {state}; {len(tree.nodes)} nodes, {figure}{exported}; {view.open_asks} open "
        "asks (* best, + its lineage)"
    )
    return api.view(
        "tree",
        head,
        "\n".join(lines),
        cursor,
        session=view,
        nodes=tuple(shown) if detailed else tuple(shown[-50:]),
    )
