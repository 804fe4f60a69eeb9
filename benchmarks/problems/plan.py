"""What is to be done next, from what was done: pure, so that a sitting goes on wherever another one
ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .checkout import Problem, shuffled
from .records import Records


@dataclass(frozen=True)
class Wanted:
    """How many problems also get a mutant, are also timed, and how many exploits are judged.
    identities: False for a sitting without those that are not chosen. peers: names of other
    evaluators (records.PEERS) that see the problems with a mutant and the exploits."""

    mutants: int = 0
    timed: int = 0
    exploits: int = 0
    peers: tuple[str, ...] = ()
    identities: bool = True


@dataclass(frozen=True)
class Work:
    """One piece: parts of records.PARTS that are missing for one subject."""

    subject: str
    parts: tuple[str, ...]


def next_work(
    problems: Sequence[Problem], exploits: Sequence[str], records: Records, wanted: Wanted
) -> Work | None:
    """The first piece that is missing, None where nothing is."""
    return next(missing(problems, exploits, records, wanted), None)


def mutated(problems: Sequence[Problem], records: Records, count: int) -> list[str]:
    """The problems that get a mutant: the same in every sitting, but for those of which none could
    be made or that were not judged."""
    return _chosen(problems, records, count, "made")


def missing(
    problems: Sequence[Problem], exploits: Sequence[str], records: Records, wanted: Wanted
) -> Iterator[Work]:
    """Everything that is not done, as far as is known now, in its order."""
    with_mutant = mutated(problems, records, wanted.mutants)
    timed = _chosen(problems, records, wanted.timed, "timed")
    for problem in problems:
        parts = ["identity"] if wanted.identities or problem.name in with_mutant else []
        parts += ["made", "mutant"] if problem.name in with_mutant else []
        parts += ["timed"] if problem.name in timed else []
        yield from _work(problem.name, parts, records)
    for name in exploits[: wanted.exploits]:
        yield from _work(name, ["exploit"], records)
    for peer in wanted.peers:
        for name in with_mutant:
            yield from _work(name, [f"{peer} identity", f"{peer} mutant"], records)
        for name in exploits[: wanted.exploits]:
            yield from _work(name, [f"{peer} exploit"], records)


def _work(subject: str, parts: Sequence[str], records: Records) -> Iterator[Work]:
    if missing := tuple(part for part in parts if records.get(part, subject) is None):
        yield Work(subject, missing)


def _chosen(problems: Sequence[Problem], records: Records, count: int, part: str) -> list[str]:
    names = (problem.name for problem in shuffled(problems))
    return [name for name in names if not _unusable(name, records, part)][:count]


def _unusable(name: str, records: Records, part: str) -> bool:
    """Whether the problem was not judged correct as it is, or has no mutant."""
    identity, found = records.get("identity", name), records.get(part, name)
    return (identity is not None and identity.outcome != "correct") or (
        found is not None and found.outcome in ("none", "refused")
    )
