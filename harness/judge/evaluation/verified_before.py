"""What was verified while a task is open. A comparison in a search does not verify it once more:
every output of its timed calls is verified as well, and who wins is confirmed from the beginning.
"""

from __future__ import annotations

from dataclasses import replace

from ..outcomes import Built, Verified
from ..stage_context import StageContext
from .progress import Progress

MOST = 256  # candidates of one open task, the latest of them


def note(context: StageContext, verified: Verified) -> None:
    """Remember it where it is right, and where workers after this one need nothing that it
    compiled."""
    if verified.failure or context.ablating or context.task.family.COMPILES_AT_LAUNCH:
        return
    kept, key = context.task.verified, _key(context)
    if _covers(kept.get(key), context):
        return
    kept.pop(key, None)
    kept[key] = verified
    while len(kept) > MOST:
        del kept[next(iter(kept))]


def find(context: StageContext) -> tuple[Progress, Verified] | None:
    """What building and verifying left of the same text, judged alike and in all these cases; None
    where it is not known."""
    verified: Verified | None = context.task.verified.get(_key(context))
    if verified is None or not _covers(verified, context):
        return None
    known = {"known": True}
    progress, _ = Progress().stage("build", lambda: Built(known))
    return progress.stage("verify", lambda: replace(verified, data={**verified.data, **known}))


def _covers(verified: Verified | None, context: StageContext) -> bool:
    return verified is not None and all(c.name in verified.results for c in context.cases)


def _key(context: StageContext) -> tuple[str, ...]:
    request = context.request
    return (
        request.candidate.digest,
        request.candidate.language,
        str(request.policy),
        context.place.worker,
    )
