"""What was verified while a task is open. A comparison in a search does not verify it once more:
every output of its timed calls is verified as well, and who wins is confirmed from the beginning.

Its processes are timed ones then, which get what the checked one ordered: what was built is kept
with the verdict. It was there at once for every timed process so far, too, so that none can tell
whether it was made in this evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..outcomes import Built, Verified
from ..processes.builds import EvaluationBuilds
from ..stage_context import StageContext
from .progress import Progress

MOST = 256  # candidates of one open task, the latest of them
# of their builds, which are in the judge's memory; who has larger ones is verified again
MOST_BYTES, MOST_BYTES_OF_ONE = 64 << 20, 8 << 20


@dataclass(frozen=True)
class VerifiedCandidate:
    """A right candidate, with what its checked process had built."""

    verified: Verified
    builds: EvaluationBuilds


def note(context: StageContext, verified: Verified) -> None:
    """Remember it where it is right, and where workers after this one need nothing that it
    compiled but what the build service made. To be called when its checked process orders nothing
    more."""
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
    """What building and verifying left of the same text, judged alike and in all these cases; None
    where it is not known. The context's processes get what was built then, and nothing else."""
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
