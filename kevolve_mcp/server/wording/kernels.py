"""Verdicts on one kernel: compiled, checked, profiled or submitted."""

from __future__ import annotations

from typing import Any

from kevolve_mcp import api
from kevolve_mcp.actions import Action, Verb
from kevolve_mcp.quantities import share, times
from kevolve_mcp.synthesis.likeness import LIKE
from kevolve_mcp.synthesis.wording import CLOCK, beyond, log_end, met_line, said

from ..results import Phrase
from .figures import evaluation_lines, listed, plainly

__all__ = ["evaluated"]

SHORT = 160  # characters of a message in the first line
_FAILED = {
    "invalid": "is invalid",
    "build_failed": "does not build",
    "timed_out": "timed out",
    "incorrect": "is incorrect",
    "needs_review": "needs a review",
    "reward_hack": "is a reward hack",
}  # other states are verbs already
_DONE = {
    "compile": "compiles",
    "check": "is correct",
    "profile": "is correct",
    "submit": "is correct",
}

NO_CHANGE = "no clear change"
_CHANGES = {
    "improved": "improved",
    "regressed": "regressed",
    "equivalent": "equal, within the resolution of the device",
    "inconclusive": NO_CHANGE,
}


def evaluated(result: api.Evaluated) -> Phrase:
    """Phrase the verdict first, then the reasons, then what to read and do next."""
    failed = result.evaluation.status != "correct" and len(result.evaluation.message) > SHORT
    lines = [f"In full: {said(result.evaluation.message)}"] if failed else []
    lines += [*_relation(result), *evaluation_lines(result.evaluation), *_facts(result)]
    if result.depth == "check" and (families := result.evaluation.input_families):
        lines.append(
            f"Checked with these kinds of inputs: {', '.join(families)}; at the cases' own shapes "
            "(others only where the task has HELD_OUT, at the finish)."
        )
    if result.cached:
        lines.append(
            "Answered from the store: the same kernel was evaluated before under the same "
            "conditions."
        )
    lines += _placed(result)
    if result.knowledge:
        lines.append(f"Worth reading (knowledge_read): {', '.join(result.knowledge)}")
    actions, advice = _next(result)
    return Phrase(_verdict(result), lines, actions, advice, _links(result))


def _verdict(result: api.Evaluated) -> str:
    evaluation = result.evaluation
    if result.depth == "ablation":
        return (
            f"ABLATION, {evaluation.status}, not a result and not recorded ({evaluation.id}): "
            f"{said(evaluation.message, SHORT)}"
        )
    who = f"{result.node.id} " if result.node else "The kernel "
    if evaluation.status != "correct":
        return (
            f"{who}{_FAILED.get(evaluation.status, evaluation.status)} ({evaluation.id}): "
            f"{said(evaluation.message, SHORT)}"
        )
    timed = (
        f": {times(evaluation.fitness, evaluation.interval)} over the strongest baseline"
        if evaluation.fitness is not None
        else ""
    )
    best = ", the new best" if result.new_best else ""
    reservation = (
        ""
        if evaluation.eligible or evaluation.fitness is None
        else "; a protected case regressed, so it cannot win"
    )
    return f"{who}{_DONE[result.depth]} ({evaluation.id}){timed}{best}{reservation}"


def _relation(result: api.Evaluated) -> list[str]:
    node = result.node
    lines = []
    if node is not None and node.versus_parent is not None:
        change = _CHANGES[node.versus_parent_change or "inconclusive"]
        if change == NO_CHANGE and (side := beyond(node.versus_parent_interval)):
            change = f"{side} by the figures, {CLOCK}"
        lines.append(
            f"Against its parent: {times(node.versus_parent, node.versus_parent_interval)}, "
            f"{change}."
        )
    if node is not None and node.met is not None:
        lines.append(
            f"Head-to-head with the best so far: {met_line(node.id, node.met)}."
            + ("" if node.met.won else f" {node.met.other} stays the best.")
        )
    if result.predicted_speedup is not None and result.observed is not None:
        lines.append(
            f"Predicted {times(result.predicted_speedup)}, observed {times(result.observed)}."
        )
    if (
        result.best is not None
        and not result.new_best
        and (node is None or result.best.id != node.id)
    ):
        lines.append(f"Best so far: {result.best.id} at {times(result.best.fitness)}.")
    return lines


def _placed(result: api.Evaluated) -> list[str]:
    """Where the node was placed in the tree, when the caller had not said."""
    if (
        result.likeness is not None
        and result.node is not None
        and result.nearest in result.node.parents
    ):
        note = "" if result.node.ask_id else "Neither ask_id nor parents was given: "
        return [
            f"{note}placed under {result.nearest}, which has {share(result.likeness)} of its lines."
        ]
    if not result.assumed_root:
        return []
    line = "Neither ask_id nor parents was given: it was recorded as a child of the root"
    if result.likeness is not None:
        line += (
            f", since no earlier node has {share(LIKE)} of its lines ({result.nearest} has "
            f"{share(result.likeness)})"
        )
    return [f"{line}. Name parents=[...] when it derives from a node."]


def _facts(result: api.Evaluated) -> list[str]:
    """Static facts of the build, where the call asked for them; the end of the log, where something
    failed."""
    facts = dict(result.facts)
    log = facts.pop("log", None)
    kernels = [line for data in facts.values() for line in _kernels(data)]
    if kernels:
        return [*kernels, log_end(log["end"])] if log else kernels
    stages = facts if result.depth in ("compile", "profile") else {}
    loops = [line for data in stages.values() for line in _loops(data)]
    stages = {
        stage: {k: v for k, v in data.items() if k not in _OF_LOOPS}
        for stage, data in stages.items()
    }
    lines = [*loops] + [
        f"{stage}: {said(words, 600)}" for stage, data in stages.items() if (words := plainly(data))
    ]
    return [*lines, log_end(log["end"])] if log else lines


_OF_LOOPS = ("loops", "loops_of", "loops_not_shown", "loops_note", "listings", "disassembler")


def _loops(data: dict[str, Any]) -> list[str]:
    """One line for each loop of a C++ candidate."""
    if "loops" not in data:
        return []
    head = f"Loops of {data['loops_of']} (section assembly has them with source lines):"
    lines = [f"- {row['loop']}: {row['summary']}" for row in data["loops"]] or [
        "- no loop was found"
    ]
    if data.get("loops_not_shown"):
        lines.append(f"- {data['loops_not_shown']} more: section assembly has all")
    if data.get("loops_note"):
        lines.append(f"- note: {data['loops_note']}")
    return [head, *lines]


def _kernels(data: dict[str, Any]) -> list[str]:
    """One line for each compiled kernel."""
    lines = []
    for k in data.get("kernels", ()):
        registers = (
            ", ".join(f"{count} {name}" for name, count in k["registers"].items())
            or "registers unknown"
        )
        spills = ", ".join(
            f"{count} {name}"
            for name, count in {**k["spills"], "stack bytes": k["stack_bytes"]}.items()
            if count
        )
        matrix = listed(f"{count} {name}" for name, count in k["matrix_instructions"].items())
        lines.append(
            (
                f"- {k['kernel']} ({k['configuration']}; {listed(k['cases'], 3)}): {registers}, "
                f"{f'spills {spills}' if spills else 'no spills'}, {k['shared_bytes']:,} bytes "
                f"shared, occupancy {k['occupancy']['fraction']:.0%} limited by "
                f"{k['occupancy']['limiter']}"
            )
            + (f", matrix instructions: {matrix}" if matrix else "")
            + (", an alternative of the autotuner" if k.get("autotuned_alternative") else "")
            + (f"; NOT LOADED: {said(k['refused'])}" if k.get("refused") else "")
        )
    if data.get("kernels_not_shown"):
        lines.append(f"- {data['kernels_not_shown']} more: section profile has all")
    return lines


_VERBS: dict[str, Verb] = {"compile": "compile", "check": "check", "submit": "submit"}
_DEEPER: dict[str, Verb] = {"compile": "check", "check": "profile", "profile": "submit"}


def _next(result: api.Evaluated) -> tuple[tuple[Action, ...], str]:
    """What may be done now, and what to do first."""
    session, evaluation = result.session_id, result.evaluation
    if result.depth == "submit":
        return (Action("next_ask", session=session),), ""
    if result.depth == "ablation" and any(c.latency_us is not None for c in evaluation.cases):
        return (), "compare its times with those of the whole kernel, then go on with the latter"
    if evaluation.status != "correct":
        again = Action(_VERBS.get(result.depth, "profile"), "tries it again", session=session)
        log = _look("shows the log", result, "log")
        return (again, log), "fix the kernel"
    if result.depth == "compile" and result.facts.get("build", {}).get("kernels"):
        return (
            _look("for the listings", result, "assembly"),
            Action(
                "check",
                "verifies float32 and float16 Triton kernels in its interpreter; CUDA C++ is "
                "verified on a device",
                target="cpu",
                language="triton",
            ),
        ), ""
    if result.depth == "check" and evaluation.device.endswith("triton-interpreter"):
        why = "for registers, spills and occupancy; only a device can time it"
        return (Action("compile", why, target="cuda:sm_90"),), ""
    if result.depth == "profile" and not session:
        return (Action("open_session", "to search for a faster one"),), ""
    return (Action(_DEEPER[result.depth], session=session),), ""


def _look(purpose: str, result: api.Evaluated, section: str) -> Action:
    evaluation = result.evaluation.id
    return Action(
        "view", purpose, session=result.session_id, evaluation=evaluation, section=section
    )


def _links(result: api.Evaluated) -> list[tuple[str, str, str]]:
    if result.node is None:
        return []
    return [
        (
            f"kevolve://sessions/{result.session_id}/nodes/{result.node.id}/source",
            f"source of {result.node.id}",
            "text/x-python",
        )
    ]
