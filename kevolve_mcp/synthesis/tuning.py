"""The next parameters of a candidate: informed points first, then Optuna's TPE over TUNABLES,
rebuilt at every ask.

Informed points are the last choices of all lists together, and the neighbours of the best point so
far: a budget of a dozen evaluations is spent before a model has learnt anything. No study is kept:
it is rebuilt from the tree, and the same seed and history give the same answer in any process. TPE
repeats itself, so tried points are refused by digest; after some repetitions a random unseen point
is taken; when every point was tried, TuningExhausted is raised. Without Optuna the choice is random
among the unseen points, and `Choice.method` says so.
"""

from __future__ import annotations

import importlib
import itertools
import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.types import Candidate, Params, ParamValue, Tunables
from kevolve_mcp.errors import Conflict, UsageError

from .ask import HistoryRow, short, structure_digest

REPETITIONS = 32  # draws from the sampler before a random unseen point is taken
# finished attempts of a structure before the sampler is used: with fewer it draws at random anyway
WARM_UP = 6
DEAD_AFTER = 2  # failures of a choice that never worked, before it is tried last
SCAN_LIMIT = 200_000  # points listed one by one; larger spaces are sampled

Dead = frozenset[tuple[str, str]]  # names with choices, as JSON


class TuningExhausted(Conflict):
    """Every combination of the choices was tried."""

    code = "tuning_exhausted"


@dataclass(frozen=True)
class Choice:
    """A choice of parameters. params: the whole PARAMS literal of the child. method: "corner",
    "neighbour", "tpe", "random", or "random (optuna is not installed)". unseen: the number of
    untried combinations after this one."""

    candidate: Candidate
    params: Params
    method: str
    unseen: int


def next_choice(
    candidate: Candidate,
    history: Sequence[HistoryRow],
    seed: int,
    *,
    ahead: int = 0,
    fixed: frozenset[str] = frozenset(),
    use_optuna: bool = True,
) -> Choice:
    """Return the next parameters for `candidate`'s text; deterministic in its arguments.

    history: finished attempts; those of other structures are ignored. ahead: the number of other
    answers in progress, so that concurrent authors do not all propose the same. fixed: names that
    keep their value. Raises UsageError without TUNABLES or if PARAMS lacks a name, TuningExhausted
    when nothing is left.
    """
    tunables = candidate.tunables()
    params = candidate.params()
    _check(tunables, params)
    space = {
        name: _distinct(choices)
        for name, choices in tunables.items()
        if name not in fixed and len(_distinct(choices)) > 1
    }
    structure = short(structure_digest(candidate))
    rows = [r for r in history if short(r.structure) == structure]
    digests = {short(candidate.digest)} | {short(r.candidate) for r in history}
    rng = random.Random(f"{seed}:{len(rows)}:{candidate.digest}")

    points = math.prod(map(len, space.values())) if space else 1
    tried = {_key(p): p for p in (params, *({**params, **r.params} for r in rows))}
    inside = sum(1 for point in tried.values() if _inside(point, tunables, fixed, params))

    def made(point: Params) -> Candidate | None:
        full = {**params, **point}
        child = candidate.with_params(full)
        return None if _key(full) in tried or short(child.digest) in digests else child

    left, dead = max(0, points - inside), _dead(space, rows)
    if left:
        informed = [
            (child, p, how)
            for p, how in _informed(space, rows, params, dead)
            if (child := made(p)) is not None
        ]
        if ahead < len(informed):
            child, point, method = informed[ahead]
            return Choice(child, {**params, **point}, method, left - 1)
        sampler = (
            _tpe(space, rows, params, seed, fixed) if use_optuna and len(rows) >= WARM_UP else None
        )
        if sampler is not None:
            for point in itertools.islice(sampler, REPETITIONS):
                child = made(point)
                if child is not None and not _holds(point, dead):
                    return Choice(child, {**params, **point}, "tpe", left - 1)
        method = (
            "random"
            if _optuna() is not None or not use_optuna
            else "random (optuna is not installed)"
        )
        for point in _unseen_points(space, rng, points, dead):
            child = made(point)
            if child is not None:
                return Choice(child, {**params, **point}, method, left - 1)
    raise TuningExhausted(
        f"all {points} combinations of {', '.join(space) or 'no tunable with two choices'} were "
        "tried",
        "Add choices to TUNABLES, tune another node, or change the structure of the kernel.",
    )


def _check(tunables: Tunables, params: Params) -> None:
    example = 'write TUNABLES = {"BLOCK": [64, 128]} and PARAMS = {"BLOCK": 64} as literals'
    if not tunables:
        raise UsageError(
            "the candidate has no TUNABLES", f"To have its parameters searched, {example}."
        )
    missing = sorted(set(tunables) - set(params))
    if missing:
        raise UsageError(
            f"PARAMS lacks {missing[0]!r}, which TUNABLES names",
            f"Give each tunable its current value: {example}.",
        )


def _distinct(choices: Sequence[ParamValue]) -> tuple[ParamValue, ...]:
    """Choices that differ in their text: 1, 1.0 and True are three choices."""
    return tuple({json.dumps(c): c for c in choices}.values())


def _key(params: Params) -> str:
    return json.dumps(params, sort_keys=True)


def _inside(known: Params, tunables: Tunables, fixed: frozenset[str], params: Params) -> bool:
    """Whether a tried point belongs to the space: fixed names have the same value, the others one
    of the choices."""
    for name, value in known.items():
        choices = [params[name]] if name in fixed or name not in tunables else tunables[name]
        if json.dumps(value) not in {json.dumps(c) for c in choices}:
            return False
    return True


def _informed(
    space: Tunables, rows: Sequence[HistoryRow], params: Params, dead: Dead
) -> Iterator[tuple[Params, str]]:
    """Points to try before a model has learnt anything: the last choice of every list together,
    since authors write the cautious choice first; then coordinate descent, moving each tunable of
    the best point one choice in either direction, in the text's order."""
    if not space:
        return
    yield {name: choices[-1] for name, choices in space.items()}, "corner"
    correct = [row for row in rows if row.status == "correct" and row.fitness]
    best = (
        {**params, **max(correct, key=lambda row: row.fitness or 0.0).params} if correct else params
    )
    for name, choices in space.items():
        if json.dumps(best[name]) not in (texts := [json.dumps(c) for c in choices]):
            continue
        here = texts.index(json.dumps(best[name]))
        for index in (here + 1, here - 1):
            if 0 <= index < len(choices) and (name, texts[index]) not in dead:
                yield {**{n: best[n] for n in space}, name: choices[index]}, "neighbour"


def _dead(space: Tunables, rows: Sequence[HistoryRow]) -> Dead:
    """The (name, choice as JSON) that were tried at least DEAD_AFTER times, never in a correct
    candidate."""
    tries: dict[tuple[str, str], list[bool]] = {}
    for row in rows:
        for name in space.keys() & row.params.keys():
            tries.setdefault((name, json.dumps(row.params[name])), []).append(
                row.status == "correct"
            )
    return frozenset(
        choice
        for choice, outcome in tries.items()
        if len(outcome) >= DEAD_AFTER and not any(outcome)
    )


def _unseen_points(
    space: Tunables, rng: random.Random, points: int, dead: Dead
) -> Iterator[Params]:
    """Random points, those with a dead choice last; in a small space every point exactly once."""
    names = list(space)
    if points > SCAN_LIMIT:
        for _ in range(10_000):  # in such a large space nearly every draw is new
            yield {n: rng.choice(choices) for n, choices in space.items()}
        return
    listed = [
        dict(zip(names, values, strict=True)) for values in itertools.product(*space.values())
    ]
    rng.shuffle(listed)
    yield from sorted(listed, key=lambda point: _holds(point, dead))


def _holds(point: Params, dead: Dead) -> bool:
    return any((name, json.dumps(value)) in dead for name, value in point.items())


def _optuna() -> Any | None:
    try:
        return importlib.import_module("optuna")
    except ImportError:
        return None


def _tpe(
    space: Tunables, rows: Sequence[HistoryRow], params: Params, seed: int, fixed: frozenset[str]
) -> Iterator[Params] | None:
    """Proposals of a new study that knows all finished attempts; None without Optuna."""
    optuna = _optuna()
    if optuna is None or not space:
        return None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # strings, which Optuna stores unchanged
    encoded = {n: {json.dumps(c): c for c in choices} for n, choices in space.items()}
    distributions = {
        n: optuna.distributions.CategoricalDistribution(list(e)) for n, e in encoded.items()
    }
    trials = []
    for row in rows:
        full = {**params, **row.params}
        point = {n: json.dumps(full[n]) for n in space}
        if any(point[n] not in encoded[n] for n in space) or any(
            full[n] != params[n] for n in fixed & full.keys()
        ):
            continue
        # a failure counts as the worst value, so that the model avoids its region
        value = row.fitness if row.status == "correct" else 0.0
        if value is not None:
            trials.append(
                optuna.trial.create_trial(
                    params=point, distributions=distributions, value=float(value)
                )
            )
    sampler = optuna.samplers.TPESampler(
        seed=(seed * 1_000_003 + len(rows)) % 2**32, n_startup_trials=WARM_UP
    )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.add_trials(trials)

    def proposals() -> Iterator[Params]:
        while True:
            trial = study.ask(distributions)
            yield {n: encoded[n][trial.params[n]] for n in space}

    return proposals()
