"""The author that needs no model: it varies what exists and instantiates what is known."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Sequence

import anyio.to_thread

from harness.types import Candidate, CandidateError, Params
from kevolve_mcp.errors import UsageError
from kevolve_mcp.synthesis import tuning
from kevolve_mcp.synthesis.ask import (
    AskContext,
    ParentView,
    short,
    structural_names,
    structure_digest,
)
from kevolve_mcp.synthesis.skills import instantiate, skill_name
from knowledge import Library, Skill

from .base import Author, Exhausted, Proposal, starting_kernel


class OfflineAuthor(Author):
    """An author without a model. It answers by role: start with the kernel unchanged; tune by
    parameter search; crossover by mixing parameters; improve, repair and draft by structure
    switches and untried skills; improve first varies parameters of a parent where nobody has. When
    a role has nothing left, it varies the parameters of the parents, then of the best node, and
    says so; then it raises Exhausted. It is stateless: all it knows is in the ask."""

    name = "offline"

    def __init__(self, skills: Sequence[Skill] | None = None) -> None:
        """Create the author. skills: those to instantiate; None for the built-in ones."""
        self._skills = skills

    async def propose(self, ask: AskContext) -> Proposal:
        # reading skills and Optuna's model take tens of milliseconds
        return await anyio.to_thread.run_sync(self.answer, ask)

    def answer(self, ask: AskContext) -> Proposal:
        """Answer an ask: `propose` without an event loop."""
        if (start := starting_kernel(ask)) is not None:
            return start
        order = {
            "tune": (self._tuned, self._switched, self._skill),
            "crossover": (self._crossed, self._tuned, self._skill),
            "improve": (self._first_tuned, self._switched, self._skill, self._tuned),
            "repair": (self._switched, self._skill, self._tuned),
            "draft": (self._skill, self._switched, self._tuned),
        }.get(ask.role, (self._skill, self._tuned))
        for step in order:
            proposal = step(ask, list(ask.parents))
            if proposal is not None:
                return proposal
        if ask.best is not None and ask.best.id not in {p.id for p in ask.parents}:
            for step in (self._tuned, self._switched):
                proposal = step(ask, [ask.best])
                if proposal is not None:
                    return proposal
        raise Exhausted(
            f"nothing is left for {ask.role} ask {ask.id}: all TUNABLES choices and matching "
            "skills were tried",
            "Finish the session, submit a kernel with more TUNABLES or another structure, or let a "
            "model write the next one.",
        )

    def _tuned(self, ask: AskContext, parents: Sequence[ParentView]) -> Proposal | None:
        for parent in parents:
            candidate = Candidate(parent.source, ask.language)
            try:
                choice = tuning.next_choice(candidate, ask.history, ask.seed, ahead=_ahead(ask))
            except (tuning.TuningExhausted, UsageError, CandidateError):
                continue  # nothing to vary here: the next parent, or the caller's next step
            changed = _difference(candidate.params(), choice.params)
            return Proposal(
                choice.candidate.source,
                ask.language,
                f"parameters of {parent.id}: {changed}",
                None,
                f"chosen by {choice.method}; {choice.unseen} combinations untried",
            )
        return None

    def _first_tuned(self, ask: AskContext, parents: Sequence[ParentView]) -> Proposal | None:
        """Parameters of parents of which only one point is known: their joint effect comes
        first."""
        known = [(short(row.structure), short(row.candidate)) for row in ask.history]

        def varied(parent: ParentView) -> bool:
            own = short(Candidate(parent.source, ask.language).digest)
            return any(
                structure == short(parent.structure) and candidate != own
                for structure, candidate in known
            )

        return self._tuned(ask, [parent for parent in parents if not varied(parent)])

    def _switched(self, ask: AskContext, parents: Sequence[ParentView]) -> Proposal | None:
        """Other values of the structure switches, the fewest changes first."""
        for parent in parents:
            candidate = Candidate(parent.source, ask.language)
            try:
                names = [
                    n
                    for n in structural_names(parent.source)
                    if n in candidate.tunables() and n in candidate.params()
                ]
                params, tunables = candidate.params(), candidate.tunables()
            except CandidateError:
                continue
            points = [
                {**params, **dict(zip(names, values, strict=True))}
                for values in itertools.product(*(tunables[n] for n in names))
            ]
            random.Random(f"{ask.seed}:{ask.id}").shuffle(points)
            points.sort(key=lambda p: sum(_text(p[n]) != _text(params[n]) for n in names))
            for child, point in _untried(ask, candidate, points):
                changed = _difference(params, point)
                return Proposal(
                    child.source,
                    ask.language,
                    f"another structure of {parent.id}: {changed}",
                    None,
                    "untried structure switch",
                )
        return None

    def _skill(self, ask: AskContext, parents: Sequence[ParentView]) -> Proposal | None:
        task = ask.task.as_task()
        known = {short(r.structure) for r in ask.history} | {short(p.structure) for p in parents}
        digests = {short(r.candidate) for r in ask.history}
        for skill in self._known_skills():
            for made in instantiate(skill, task, ask.target, ask.language).found:
                if (
                    short(made.candidate.digest) not in digests
                    and short(structure_digest(made.candidate)) not in known
                ):
                    why = f"skill {skill_name(skill)} ({made.template}): {made.note}"
                    return Proposal(
                        made.candidate.source,
                        ask.language,
                        f"instantiates the skill {skill_name(skill)}",
                        None,
                        why,
                    )
        return None

    def _crossed(self, ask: AskContext, parents: Sequence[ParentView]) -> Proposal | None:
        """A mix of PARAMS for parents of one structure; otherwise the better one's structure with
        the shared values of the other."""
        ranked = sorted(parents, key=lambda p: -(p.fitness or 0.0))
        for kept, other in itertools.pairwise(ranked):
            candidate = Candidate(kept.source, ask.language)
            try:
                params, theirs = candidate.params(), Candidate(other.source, ask.language).params()
                tunables = candidate.tunables()
            except CandidateError:
                continue
            shared = [
                n
                for n in params
                if n in theirs
                and _text(theirs[n]) != _text(params[n])
                and theirs[n] in tunables.get(n, (theirs[n],))
            ]
            mixes = [
                {**params, **{n: theirs[n] for n in chosen}}
                for k in range(1, len(shared) + 1)
                for chosen in itertools.combinations(shared, k)
            ][:4096]
            random.Random(f"{ask.seed}:{ask.id}").shuffle(mixes)
            for child, point in _untried(ask, candidate, mixes):
                hypothesis = f"{kept.id} with values of {other.id}: {_difference(params, point)}"
                return Proposal(
                    child.source, ask.language, hypothesis, None, "crossover of parameters"
                )
        return None

    def _known_skills(self) -> Sequence[Skill]:
        if self._skills is None:
            self._skills = Library.builtin().skills()
        return self._skills


def _untried(
    ask: AskContext, candidate: Candidate, points: Sequence[Params]
) -> Iterator[tuple[Candidate, Params]]:
    structure = short(structure_digest(candidate))
    tried = {
        _text({**candidate.params(), **r.params})
        for r in ask.history
        if short(r.structure) == structure
    } | {_text(candidate.params())}
    digests = {short(r.candidate) for r in ask.history}
    for point in points:
        if _text(point) not in tried:
            child = candidate.with_params(point)
            if short(child.digest) not in digests:
                yield child, point


def _ahead(ask: AskContext) -> int:
    """The number of earlier asks without a node, judged by their numbers; asks that nobody will
    answer are included."""
    number = ask.id.removeprefix("a")
    return max(0, int(number) - 1 - len(ask.history)) if number.isdigit() else 0


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _difference(old: Params, new: Params) -> str:
    changed = [f"{n} {old.get(n)} -> {v}" for n, v in new.items() if _text(old.get(n)) != _text(v)]
    return ", ".join(changed) or "unchanged"
