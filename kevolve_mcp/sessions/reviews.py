"""What an approval covers: the signals of a kernel that were known when it was given."""

from __future__ import annotations

from harness.types import Evaluation
from kevolve_mcp.search import Node
from kevolve_mcp.store import Approval, Store, StoredEvaluation
from kevolve_mcp.synthesis.wording import one_line, said


def against(store: Store, stored: StoredEvaluation, session: str, node: Node) -> str:
    """Return why an evaluation of a node, or of its package, does not let it pass; "" if it is
    correct, or only needs a review of signals that a person has already approved."""
    evaluation = stored.evaluation
    if evaluation.status == "correct":
        return ""
    if evaluation.status != "needs_review":
        return said(evaluation.message)
    approval = store.approvals.newest(session).get(node.id)
    seen = _seen(store, evaluation, node, approval) if approval else set[str]()
    unseen = [name for name in _asked(evaluation) if name not in seen]
    if approval and not unseen:
        return ""
    late = f", found after {one_line(approval.author)} had approved it" if approval else ""
    return f"{said(evaluation.message)} ({', '.join(unseen)}{late})"


def _seen(store: Store, evaluation: Evaluation, node: Node, approval: Approval) -> set[str]:
    """The review signals known of the kernel, or of the package, when it was approved."""
    return {
        name
        for candidate in {node.candidate, evaluation.candidate}
        for known in store.evaluations.list(task=evaluation.task, candidate=candidate)
        if known.created <= approval.created and known.evaluation.target == evaluation.target
        for name in _asked(known.evaluation)
    }


def _asked(evaluation: Evaluation) -> list[str]:
    return [s.name for s in evaluation.signals if s.kind == "review"]
