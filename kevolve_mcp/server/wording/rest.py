"""Machines, jobs and skills."""

from __future__ import annotations

from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.quantities import times
from kevolve_mcp.synthesis.machine import rates
from kevolve_mcp.synthesis.wording import said

from ..results import Phrase


def machine(view: api.MachineSummary, target: str = "") -> Phrase:
    """Phrase what a machine can do. target: the only target in the view, "" for all of them."""
    able = [t for t in view.targets if t.mode == "execute"]
    if able:
        word = f"{', '.join(t.target for t in able)} can be measured here"
    else:
        word = f"{target or 'Nothing'}{' cannot' if target else ' can'} be measured here"
    lines = [f"device: {view.about}", f"toolchain: {view.toolchain}"] if view.device else []
    if view.ceilings is not None:
        lines.append(f"measured ceilings, one core: {rates(view.ceilings)}")
    lines += [
        f"- {t.target}: {t.mode}{f' ({t.reason})' if t.reason else ''}"
        + (f"; languages {', '.join(t.languages)}" if t.languages else "")
        + (f"; profilers {', '.join(t.profilers)}" if t.profilers else "")
        for t in view.targets
    ]
    lines += [f"- {device}" for device in view.devices]
    if view.isolation:
        lines.append(
            "isolation: "
            + "; ".join(f"{level}: {state}" for level, state in view.isolation.items())
        )
    lines += [
        f"interpreter {i.path} ({i.origin}): {'usable' if i.usable else 'not usable'}, {i.reason}"
        for i in view.interpreters
    ]
    lines += [f"missing: {text}" for text in view.missing]
    if able:
        return Phrase(word, lines, (Action("open_session", target=able[0].target),))
    if target:
        all_targets = Action("describe_targets", "without a target lists what works here")
        return Phrase(word, lines, (all_targets,))
    again = Action("describe_targets", "looks again")
    return Phrase(word, lines, (again,), "fix what is missing")


def running(job: api.Job) -> Phrase:
    """Phrase a job without a result: its progress, how long it will take, what to call."""
    if job.state == "cancelled":
        return Phrase(
            f"Job {job.id} ({job.kind}) was cancelled; it left no result",
            advice="call its tool again to start it anew",
        )
    eta = f", about {job.eta_s:.0f} s left" if job.eta_s is not None else ""
    queue = f", {job.queue} before it" if job.queue else ""
    stage = f" at {job.stage}: {said(job.message)}" if job.stage else ""
    session = f" for {job.session_id}" if job.session_id else ""
    return Phrase(
        f"Job {job.id} ({job.kind}{session}) is running{stage}{eta}{queue}",
        actions=(Action("wait", job=job.id),),
    )


def listed(jobs: tuple[api.Job, ...]) -> Phrase:
    lines = [f"- {_line(j)}" for j in jobs]
    first = next((j for j in jobs if j.state == "running"), None)
    count = sum(j.state == "running" for j in jobs)
    return Phrase(
        f"{count} running, {len(jobs) - count} ended",
        lines,
        (Action("wait", job=first.id),) if first else (),
    )


def cancelled(jobs: tuple[api.Job, ...]) -> Phrase:
    stopped = [j for j in jobs if j.state == "cancelled"]
    others = [f"- {_line(j)}: left as it is" for j in jobs if j.state != "cancelled"]
    return Phrase(
        f"{len(stopped)} job(s) cancelled: {', '.join(j.id for j in stopped) or 'none'}", others
    )


def _line(job: api.Job) -> str:
    why = f": {said(job.error.message)}" if job.error else ""
    where = f", {job.stage}" if job.stage and job.state == "running" else ""
    return f"{job.id} {job.kind} {job.session_id} {job.state}{where}{why}"


def skill(view: api.Skill) -> Phrase:
    measured = f", measured effect {times(view.effect, view.interval)}" if view.effect else ""
    if view.merged:
        word = (
            f"Skill {view.id} is already known: {view.title}; this pair is further evidence "
            f"({view.measurements} in all{measured})"
        )
    else:
        word = f"Skill {view.id} proposed: {view.title}{measured}"
    state = (
        "Other sessions use it once it is measured on a second task or device, or a person accepts "
        "it."
        if view.state == "proposed"
        else f"It is {view.state}."
    )
    return Phrase(word, [view.evidence, state])
