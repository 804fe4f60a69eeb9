"""One mistake for a problem: chosen by chance that is the same in every sitting, and shown to
change what is computed."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from itertools import zip_longest
from pathlib import Path
from typing import Any

from .checkout import Problem
from .records import Record
from .rules import ANYWHERE, SKIPPED, STEPS, Mistake, mistakes

TRIED, LAST = 12, 3  # mistakes of one problem; places among them for those that say least
PATIENCE_S = 150.0
ROOT = Path(__file__).resolve().parents[2]


def ordered(problem: Problem) -> list[Mistake]:
    """Of every rule one after the other, rules and mistakes in an order of chance: no rule is
    preferred for making many, and those that say least come last."""
    chance = random.Random(problem.name)
    by_rule: dict[str, list[Mistake]] = {}
    for mistake in mistakes(problem.source):
        by_rule.setdefault(mistake.rule, []).append(mistake)
    fallback = by_rule.pop(ANYWHERE, [])
    if len(by_rule.get(SKIPPED, [])) < STEPS:
        fallback += by_rule.pop(SKIPPED, [])
    groups = list(by_rule.values())
    chance.shuffle(groups)
    for group in groups:
        chance.shuffle(group)
    chosen = [mistake for row in zip_longest(*groups) for mistake in row if mistake is not None]
    chance.shuffle(fallback)
    first = chosen[: TRIED - min(len(fallback), LAST)]
    return [*first, *fallback, *chosen[len(first) :]]


async def made(problem: Problem) -> Record:
    """The first mistake that makes a difference ("made"), or why there is none ("none")."""
    tried = ordered(problem)[:TRIED]
    found = await _differing(problem, tried)
    number = found.get("number")
    if number is None:
        return Record("made", problem.name, "none", json.dumps(found.get("reasons", {})))
    mistake = tried[number]
    figures = {
        "rule": mistake.rule,
        "line": mistake.line,
        "old": mistake.old,
        "new": mistake.new,
        "difference": found["difference"],
        "seen_with": found["with"],
        "passed_over": number,
    }
    return Record("made", problem.name, "made", "", figures)


def again(problem: Problem, record: Record) -> Mistake:
    """The mistake that a record tells of. Raises ValueError where the problem has another text
    now."""
    wanted = tuple(record.figures[name] for name in ("rule", "line", "old", "new"))
    for mistake in ordered(problem):
        if (mistake.rule, mistake.line, mistake.old, mistake.new) == wanted:
            return mistake
    raise ValueError(
        f"the mistake recorded for problem {problem.name} ({wanted[0]}, line {wanted[1]}) is not "
        "among those of its text; use the checkout that the records were made with, or another "
        "file of records"
    )


async def _differing(problem: Problem, tried: list[Mistake]) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.problems.differing",
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    asked = json.dumps({"source": problem.source, "mistaken": [m.source for m in tried]}).encode()
    try:
        out, _ = await asyncio.wait_for(process.communicate(asked), PATIENCE_S)
        return (
            json.loads(out)
            if out
            else {"reasons": {"the process": f"ended with {process.returncode}"}}
        )
    except asyncio.TimeoutError:
        return {"reasons": {"the process": f"was ended after {PATIENCE_S:.0f} s"}}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
