"""Innermost loops of a function, from the backward branches in its flow of control. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .listing import Instruction

MOST_BLOCKS = 1500  # of a function; above it nothing is looked for


@dataclass(frozen=True)
class Loop:
    """instructions: those between its first address and its backward branch. aside: those of it
    that the compiler laid elsewhere, since it holds them to be rare."""

    instructions: tuple[Instruction, ...]
    aside: tuple[Instruction, ...] = ()


@dataclass(frozen=True)
class _BasicBlock:
    first: int
    end: int  # index behind its last instruction
    following: tuple[int, ...]  # blocks by number


def innermost(code: Sequence[Instruction], kind: Callable[[str], str]) -> list[Loop]:
    """Natural loops that hold no other one, by address. kind: an instruction's name -> "jump",
    "branch" (conditional), "return", "call" or ""."""
    blocks = _blocks(code, kind)
    if not blocks or len(blocks) > MOST_BLOCKS:
        return []
    before: list[list[int]] = [[] for _ in blocks]
    for number, block in enumerate(blocks):
        for following in block.following:
            before[following].append(number)
    dominators = _dominators(blocks, before)
    bodies: dict[int, set[int]] = {}
    back: dict[int, int] = {}  # header -> its last block with a backward branch
    for number, block in enumerate(blocks):
        for header in block.following:
            if header in dominators[number]:
                bodies.setdefault(header, {header}).update(_reaching(number, header, before))
                back[header] = max(back.get(header, header), number)
    return [
        _loop(code, blocks, body, back[header])
        for header, body in sorted(bodies.items())
        if not any(other in body for other in bodies if other != header)
    ]


def _loop(
    code: Sequence[Instruction], blocks: Sequence[_BasicBlock], body: set[int], last: int
) -> Loop:
    first = min(n for n in body if n <= last)
    inside = [
        i for n in sorted(body) if first <= n <= last for i in code[blocks[n].first : blocks[n].end]
    ]
    aside = [i for n in sorted(body) if n > last for i in code[blocks[n].first : blocks[n].end]]
    return Loop(tuple(inside), tuple(aside))


def _blocks(code: Sequence[Instruction], kind: Callable[[str], str]) -> list[_BasicBlock]:
    places = {i.address: n for n, i in enumerate(code)}
    kinds = [kind(i.name) for i in code]
    starts = {0} if code else set()
    for n, i in enumerate(code):
        if kinds[n] in ("jump", "branch", "return") and n + 1 < len(code):
            starts.add(n + 1)
        if kinds[n] in ("jump", "branch") and i.target in places:
            starts.add(places[i.target])
    ordered = sorted(starts)
    numbers = {start: number for number, start in enumerate(ordered)}
    blocks = []
    for number, start in enumerate(ordered):
        end = ordered[number + 1] if number + 1 < len(ordered) else len(code)
        last, following = code[end - 1], []
        if kinds[end - 1] in ("jump", "branch") and last.target in places:
            following.append(numbers[places[last.target]])
        if kinds[end - 1] not in ("jump", "return") and end in numbers:
            following.append(numbers[end])
        blocks.append(_BasicBlock(start, end, tuple(following)))
    return blocks


def _dominators(blocks: Sequence[_BasicBlock], before: Sequence[Sequence[int]]) -> list[set[int]]:
    """Of each block those through which every way to it leads. A block that nothing reaches (a jump
    table's) has itself alone."""
    everything = set(range(len(blocks)))
    entries = {n for n in everything if not before[n]} | {0}
    dominators = [{n} if n in entries else everything for n in range(len(blocks))]
    changed = True
    while changed:
        changed = False
        for n in range(len(blocks)):
            if n in entries:
                continue
            now = set.intersection(*(dominators[p] for p in before[n])) | {n}
            if now != dominators[n]:
                dominators[n], changed = now, True
    return dominators


def _reaching(number: int, header: int, before: Sequence[Sequence[int]]) -> set[int]:
    """The blocks from which `number` is reached without passing the header."""
    members, waiting = {number}, [number]
    while waiting:
        n = waiting.pop()
        if n == header:
            continue
        for previous in before[n]:
            if previous not in members:
                members.add(previous)
                waiting.append(previous)
    return members
