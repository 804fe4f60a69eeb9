"""Candidates that were verified while a task is open. A comparison in a search does not verify them
again: all outputs of its timed calls are verified as well, and the winner is confirmed from the
beginning.

The comparison then has only timed processes, which get the builds that the checked process ordered;
so these are kept with the verdict. Every timed process finds its builds at once, so none can tell
whether they were made in this evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..outcomes import Built, Verified
from ..processes.builds import EvaluationBuilds
from ..stage_context import StageContext
from .progress import Progress

MOST = 256  # the latest candidates of one open task
# limits on their builds, which are in the judge's memory; a candidate with more is verified again
MOST_BYTES, MOST_BYTES_OF_ONE = 64 << 20, 8 << 20


@dataclass(frozen=True)
class VerifiedCandidate:
    """A correct candidate, with the builds of its checked process."""

    verified: Verified
    builds: EvaluationBuilds


def note(context: StageContext, verified: Verified) -> None:
    """Remember a candidate if it is correct and later workers need only what the build service
    made. Call it when the checked process makes no more orders."""
    if verified.failure or context.ablating or context.task.family.COMPILES_AT_LAUNCH:
        return
    entries, key = context.task.verdicts, _key(context)
    if _covers(entries.get(key), context):
        return
    builds = context.builds.hand_over(MOST_BYTES_OF_ONE)
    if builds is None:
        return
    entries.pop(key, None)
    entries[key] = VerifiedCandidate(verified, builds)
    while len(entries) > MOST or sum(entry.builds.size for entry in entries.values()) > MOST_BYTES:
        del entries[next(iter(entries))]


def find(context: StageContext) -> tuple[Progress, Verified] | None:
    """Return the outcomes of building and verifying the same text under the same rules in all these
    cases; None if unknown. The context's processes then get only the builds made at that time."""
    entry: VerifiedCandidate | None = context.task.verdicts.get(_key(context))
    if entry is None or not _covers(entry, context):
        return None
    context.builds.take_over(entry.builds)
    verified, reuse_note = entry.verified, {"known": True}
    progress, _ = Progress().stage("build", lambda: Built(reuse_note))
    return progress.stage("verify", lambda: replace(verified, data={**verified.data, **reuse_note}))


def _covers(entry: VerifiedCandidate | None, context: StageContext) -> bool:
    return entry is not None and all(c.name in entry.verified.results for c in context.cases)


def _key(context: StageContext) -> tuple[str, ...]:
    request = context.request
    return (
        request.candidate.digest,
        request.candidate.language,
        str(request.policy),
        context.place.worker,
    )
