"""Opening, asking, finishing, looking."""

from __future__ import annotations

from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.quantities import latency, share, times
from kevolve_mcp.search import dispatch, no_winner
from kevolve_mcp.synthesis.machine import device
from kevolve_mcp.synthesis.wording import one_line, said

from ..calls import call
from ..results import Phrase
from .comparisons import contest_lines
from .figures import budget_left, case_line, node_line

# the files of a package that the text shows; the others are only in the structured content
INLINE = ("README.md", "kernel.py")


def opened(result: api.Opened) -> Phrase:
    session = result.session
    word = "joined" if result.joined else "opened"
    lines = [session_line(session)]
    for case in session.cases:
        baselines = ", ".join(f"{name} {latency(us)}" for name, us in case.baselines_us.items())
        ceiling = (
            f"; the ceiling allows {latency(case.roofline_time_us)}"
            if case.roofline_time_us
            else ""
        )
        lines.append(f"- {case.name} ({', '.join(case.inputs)}): {baselines}{ceiling}")
    lines += [f"note: {said(note)}" for note in session.notes]
    lines += [f"differs from your call: {text}" for text in result.differs]
    lines += map(similar_line, session.similar)
    if session.waiting_starts:
        lines.append(
            f"Starting kernels: {session.waiting_starts}, evaluated while you read this; the first "
            "ask builds on the result, or asks for one that is left."
        )
    if session.state == "open" and _has_template(session.language):
        lines.append(
            "A template of a candidate file, to be filled in: "
            f"{call(Action('write_template', session=session.id))}."
        )
    return Phrase(
        f"Session {session.id} {word}: {session.task} on {session.target} in {session.language}",
        lines,
        (Action("next_ask" if session.state == "open" else "view", session=session.id),),
    )


def similar_line(view: api.Similar) -> str:
    """Return who solved a similar task, how well and under which conditions."""
    task = (
        "this task"
        if view.same_task
        else f"the task {one_line(view.task)}, {share(view.similarity)} alike"
    )
    differs = f"; differs: {one_line(view.differs, 200)}" if view.differs else ""
    kept = "confirmed" if view.confirmed else "in the search"
    return (
        f"Solved before: {task}, {times(view.fitness)} over its baseline ({kept}) on "
        f"{one_line(device(view.device), 160)} by {view.node} of {view.session}{differs}"
    )


def session_line(session: api.Session) -> str:
    best = (
        f"best {session.best.id} at {times(session.best.fitness, session.best.interval)}"
        if session.best
        else no_winner(session.correct)
    )
    ended = f" ({session.reason})" if session.reason else ""
    return (
        f"{session.id} {session.state}{ended}: {session.task}, {session.target}, "
        f"{session.language}, goal {session.goal}, {session.nodes} nodes, {best}, spent "
        f"{budget_left(session)}"
    )


def asked(batch: api.AskBatch) -> Phrase:
    """Phrase the texts of the asks, or why there are none."""
    session = batch.session
    if not batch.asks and not batch.ended:
        return Phrase(
            "No ask now: running evaluations, or asks that others hold, must finish first",
            [session_line(session)],
            (Action("wait", "waits for it", session=session.id),),
        )
    if not batch.asks:
        return Phrase(
            f"The search has ended: {batch.ended_detail or batch.ended}",
            [session_line(session)],
            (Action("finish", session=session.id),)
            if session.best
            else (
                Action("discard", "closes it", session=session.id),
                Action("submit", "with parents=[...] adds a node", session=session.id),
            ),
        )
    ids = ", ".join(a.context.id for a in batch.asks)
    first = batch.asks[0]
    again = ", still open: you were given it before" if first.repeated else ""
    return Phrase(
        f"{len(batch.asks)} ask(s): {ids} ({first.context.role}) for {session.id}{again}",
        ["\n\n---\n\n".join(map(ask_text, batch.asks))],
        (_submit(first),),
        whole=True,
    )


def ask_text(ask: api.Ask) -> str:
    answered = f"(already answered by {ask.answered_by})\n" if ask.answered_by else ""
    return f"{answered}{ask.context.text}"


def finished(result: api.Finished) -> Phrase:
    session = result.session
    if result.state == "abandoned":
        return Phrase(f"Session {session.id} abandoned; its tree stays readable", [result.reason])
    lines = [f"Ended because: {result.reason}", *result.unmet_goals]
    if result.measured is not None:
        lines += [
            f"The package, timed as a user calls it ({result.measured.id}):",
            *map(case_line, result.measured.cases),
        ]
        if overhead := dispatch(result.measured.cases):
            lines.append(f"Dispatch overhead per call, in us with warm caches: {overhead}.")
    if result.confirmed is not None:
        figure = times(result.confirmed.fitness, result.confirmed.interval)
        held_out = sum(c.held_out for c in result.confirmed.cases)
        also = (
            f"; {held_out} held-out case{'s' if held_out > 1 else ''} included" if held_out else ""
        )
        lines.append(f"Re-validated in fresh processes ({result.confirmed.id}): {figure}{also}.")
    lines += contest_lines(result)
    lines += [f"not confirmed: {node}: {why}" for node, why in result.rejected.items()]
    if result.lineage:
        lines += ["Lineage:", *(node_line(n) for n in result.lineage)]
    lines += [
        f"Skill {s.id} ({s.state}): {s.title} ({times(s.effect, s.interval)})"
        for s in result.skills
        if s.effect
    ]
    lines += [f"No new skill from {note}" for note in result.skill_notes]
    for name in INLINE if result.contents else ():
        lines.append(f"--- {name}\n{result.contents.get(name, '')}")
    if result.contents:
        lines.append("The other files are in the structured content, result.contents.")
    elif result.files:
        lines.append(f"Files: {', '.join(result.files)}")
    best = result.measured or result.confirmed
    figure = times(best.fitness, best.interval) if best else "not measured"
    node = result.node.id if result.node else "?"
    links = [
        (f"kevolve://sessions/{session.id}/report", f"report of {session.id}", "text/markdown")
    ]
    return Phrase(
        f"Session {session.id} finished: {node}, {figure}, exported to {result.package}",
        lines,
        links=links,
    )


def _submit(ask: api.Ask) -> Action:
    context = ask.context
    if context.role == "start":
        return Action(
            "submit_start",
            "evaluates this start as it is",
            session=context.session,
            ask=context.id,
        )
    return Action("submit", session=context.session, ask=context.id)


def _has_template(language: str) -> bool:
    from kevolve_mcp.synthesis.templates import LANGUAGES

    return language in LANGUAGES
