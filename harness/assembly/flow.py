"""Innermost loops of a function, found by the backward branches in its control flow. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .listing import Instruction

MOST_BLOCKS = 1500  # in larger functions no loops are looked for


@dataclass(frozen=True)
class Loop:
    """One loop. instructions: those between its first address and its backward branch. aside: its
    instructions that the compiler placed elsewhere because it considers them rare."""

    instructions: tuple[Instruction, ...]
    aside: tuple[Instruction, ...] = ()


@dataclass(frozen=True)
class _BasicBlock:
    first: int
    end: int  # the index after its last instruction
    following: tuple[int, ...]  # indices of the blocks that can follow


def innermost(code: Sequence[Instruction], kind: Callable[[str], str]) -> list[Loop]:
    """Return the natural loops that contain no other loop, by address. kind: maps an instruction's
    name to its kind; "jump", "branch" (conditional) and "return" decide here."""
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
    """Return for each block the blocks on every path to it. A block without known predecessors (the
    target of a jump table) has only itself."""
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
    """Return the blocks from which `number` is reached without passing the header."""
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
