"""What came of a run, as figures: from its transcript, its tree, and what was judged in the end."""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.agents import following, plan, transcript
from benchmarks.agents.kernels import Kernels
from benchmarks.agents.transcript import Call
from kevolve_mcp.synthesis.layout import estimate_tokens

SHARE = 0.95
STEP = 1.08  # a step that should not be called unclear
SAID = 4000  # characters of what the agent said, the last ones


@dataclass(frozen=True)
class Point:
    """A kernel that was measured in the search. at: seconds from the beginning until the agent knew
    it. fitness: over the strongest baseline. evaluation: its id in that session, "" for none."""

    at: float
    fitness: float
    evaluation: str = ""
    session: str = ""


def make(run: Path) -> dict[str, Any]:
    """The record, as JSON has it. Times are seconds, figures speed-ups over the strongest
    baseline."""
    agreed = plan.load(run)
    calls = transcript.read(run / "transcript.jsonl", agreed.began)
    lead = leading(calls)
    judged = _read(run / "judged.json", [])
    ended = _read(run / "ended.json", {})
    best = [[j["at"], j["fitness"]] for j in _rising(judged)]
    said = run / "said.txt"
    return {
        "run": run.name,
        "task": agreed.task,
        "target": agreed.target,
        "agent": agreed.agent,
        "with_server": agreed.with_server,
        "budget": {"seconds": agreed.seconds, "calls": agreed.calls},
        "seconds": round(ended["at"] - agreed.began, 1) if ended else None,
        "exit_code": ended.get("exit_code"),
        "calls": dict(Counter(call.tool for call in calls)),
        "errors": dict(Counter(call.error for call in calls if call.error)),
        "first_errors": [f"{c.tool}: {c.text[:200]}" for c in calls if c.error][:5],
        "shown": _shown(calls),
        "asks": _asks(run, calls),
        "steps": _steps(calls),
        "curve": [[round(p.at, 1), round(p.fitness, 4)] for p in lead],
        "time_to_95_s": _reached([[p.at, p.fitness] for p in lead]),
        "finished": any(call.tool == "session_finish" and not call.error for call in calls),
        "confirmed": judged[-1] if judged else {"status": "nothing was left", "fitness": None},
        "confirmed_curve": best,
        "confirmed_95_s": _reached(best) if len(best) > 1 else None,
        "said": said.read_text(errors="replace")[-SAID:] if said.exists() else "",
    }


def leading(calls: Sequence[Call]) -> list[Point]:
    """The kernels that were faster than all before them, as the agent was told."""
    best, found = 0.0, []
    for point in sorted(_points(calls), key=lambda point: point.at):
        if point.fitness > best:
            best = point.fitness
            found.append(point)
    return found


def _points(calls: Sequence[Call]) -> Iterator[Point]:
    """Of submitted, profiled and tuned kernels; an ablation and what is not correct has no
    fitness."""
    for call in calls:
        at = call.at + call.seconds
        result = call.data.get("result")
        if not isinstance(result, dict) or call.tool == "session_finish" or "package" in result:
            continue
        session = str(result.get("session_id") or "")
        for trial in result.get("trials") or ():
            if trial["status"] == "correct" and trial["fitness"]:
                yield Point(at, trial["fitness"], trial["evaluation_id"], session)
        evaluation = call.evaluated.get("evaluation") or {}
        if evaluation.get("status") == "correct" and evaluation.get("fitness"):
            yield Point(at, evaluation["fitness"], evaluation["id"], session)


def _reached(curve: Sequence[Sequence[float]]) -> float | None:
    """The second at which SHARE of the last figure was there."""
    enough = SHARE * curve[-1][1] if curve else 0.0
    return next((round(at, 1) for at, figure in curve if figure >= enough), None)


def _rising(judged: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    best, found = 0.0, []
    for row in judged:
        if row["status"] == "correct" and (row["fitness"] or 0.0) > best:
            best = row["fitness"]
            found.append(row)
    return found


def _shown(calls: Sequence[Call]) -> dict[str, dict[str, int]]:
    """By kind of reply: how many, characters of text and of structured content, and the text's
    tokens, estimated."""
    found: dict[str, dict[str, int]] = defaultdict(Counter)
    for call in calls:
        row = found[call.kind]
        row["replies"] += 1
        row["characters"] += len(call.text)
        row["tokens"] += estimate_tokens(call.text)
        row["structured_characters"] += len(json.dumps(call.data)) if call.data else 0
    return {kind: dict(row) for kind, row in sorted(found.items())}


def _asks(run: Path, calls: Sequence[Call]) -> dict[str, Any]:
    """Of the session that most asks came from. open: whether its last ask was not answered, nor any
    node handed in after it: then the session ended there, and it does not count. largest_…_tokens:
    of one answer with an ask, estimated."""
    texts = [c for c in calls if c.kind in ("session_next: first", "session_next: later")]
    sessions = Counter(call.arguments.get("session_id", "") for call in texts)
    if not sessions:
        return {"given": 0, "open": 0, "answered": 0, "followed": 0, "improved": 0, "each": []}
    session = sessions.most_common(1)[0][0]
    own = [call for call in calls if call.arguments.get("session_id") == session]
    start = next((p.read_text() for p in sorted((run / "work").glob("start*.py"))), "")
    with Kernels(run) as kernels:
        tree = kernels.tree(session)
        rows = following.followed(tree, following.given(own), kernels.of_node, start)
    by_kind = {
        kind: max((estimate_tokens(c.text) for c in own if c.kind == kind), default=0)
        for kind in ("session_next: first", "session_next: later")
    }
    return {
        "given": len(rows),
        "open": int(following.left_open(tree, rows)),
        "answered": sum(bool(row.answered_by) for row in rows),
        "followed": sum(row.followed for row in rows),
        "improved": sum(row.improved is True for row in rows),
        "largest_first_tokens": by_kind["session_next: first"],
        "largest_later_tokens": by_kind["session_next: later"],
        "each": [asdict(row) for row in rows],
    }


def _steps(calls: Sequence[Call]) -> dict[str, Any]:
    """Nodes over their parents, each once. unclear: called "no clear change"; unclear_beyond_8: of
    these, where the measured ratio is above 1.08 or below 1 / 1.08. Whether such a step is a true
    one only a comparison of the two tells."""
    nodes = {}
    for call in calls:
        node = call.evaluated.get("node")
        if node and node.get("versus_parent") is not None and node["status"] == "correct":
            nodes[call.evaluated.get("session_id", ""), node["id"]] = node
    unclear = [n for n in nodes.values() if not {"improved", "regressed"} & {*n["signals"]}]
    beyond = [n for n in unclear if not 1 / STEP < n["versus_parent"] < STEP]
    return {
        "compared": len(nodes),
        "unclear": len(unclear),
        "unclear_beyond_8": len(beyond),
        "ratios_beyond_8": [
            [n["id"], n["versus_parent"], n["versus_parent_interval"]]
            for n in itertools.islice(beyond, 10)
        ],
    }


def _read(path: Path, default: Any) -> Any:
    return json.loads(path.read_text()) if path.exists() else default
