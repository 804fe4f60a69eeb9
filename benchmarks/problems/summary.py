"""What the records say, as text in Markdown: a table of levels, then everything that a reader has
to look at by hand."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.exploits.entries import Entry

from . import cheats
from .peers import TITLES
from .records import GOOD, PEERS, Record, Records

CAUGHT = ("incorrect", "crashed", "timed_out")  # endings of a mutant that was found out
ACCUSED = ("faster", "slower")  # verdicts on equal kernels that are wrong


def faults(records: Records) -> list[Record]:
    """What is this evaluator's: an identity that is neither right nor refused, a mutant that passed
    or was not judged, equal kernels called different, an exploit that escaped."""
    found = [r for r in records.of("identity") if r.outcome not in GOOD]
    found += [r for r in records.of("mutant") if r.outcome not in CAUGHT]
    found += [
        r for r in records.of("timed") if r.outcome != "correct" or set(_verdicts(r)) & {*ACCUSED}
    ]
    return found + [r for r in records.of("exploit") if _fooled(r)]


def text(records: Records) -> str:
    parts = (
        _conditions(records),
        _levels(records),
        _refusals(records),
        _mutants(records),
        _timed(records),
        _exploits(records),
        _peers(records),
    )
    return "\n".join(line for part in parts for line in part) + "\n" + "\n".join(_faults(records))


def _conditions(records: Records) -> Iterator[str]:
    for part in ("identity", "mutant", "timed", "exploit"):
        for said, count in Counter(
            tuple(sorted(r.conditions.items())) for r in records.of(part)
        ).items():
            yield f"{part}, {count}: " + "; ".join(f"{name} {value}" for name, value in said)


def _levels(records: Records) -> Iterator[str]:
    identities = records.of("identity")
    if not identities:
        return
    yield (
        "\n| level | problems | correct | refused | ours | opening s: median, largest | checking "
        "s: median, largest | device GiB: largest |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for level in (*sorted({r.subject.split("/")[0] for r in identities}), "all"):
        own = [r for r in identities if level in ("all", r.subject.split("/")[0])]
        count = Counter(
            "correct" if r.outcome == "correct" else "refused" if r.outcome == "refused" else "ours"
            for r in own
        )
        peak = max((r.figures.get("device_peak_bytes", 0) for r in own), default=0) / 2**30
        cells = (
            level,
            len(own),
            count["correct"],
            count["refused"],
            count["ours"],
            _spread(own, "open_s"),
            _spread(own, "check_s"),
        )
        yield "| " + " | ".join(map(str, (*cells, f"{peak:.1f}" if peak else ""))) + " |"


def _refusals(records: Records) -> Iterator[str]:
    refused = [r for r in records.of("identity") if r.outcome == "refused"]
    if refused:
        yield "\n| refused | reason |\n| --- | --- |"
        yield from (
            f"| {r.subject} | {' '.join(r.message.split())} |" for r in sorted(refused, key=_order)
        )


def _mutants(records: Records) -> Iterator[str]:
    judged = records.of("mutant")
    if not judged:
        return
    caught = [r for r in judged if r.outcome in CAUGHT]
    yield (
        f"\nMutants: {len(caught)} of {len(judged)} caught ({len(caught) / len(judged):.1%}); "
        f"checking s {_spread(judged, 'check_s')}"
    )
    yield "\n| rule | mutants | caught |\n| --- | --- | --- |"
    rules = {
        r.subject: (made.figures["rule"] if (made := records.get("made", r.subject)) else "?")
        for r in judged
    }
    for rule, count in sorted(Counter(rules.values()).items()):
        yield f"| {rule} | {count} | {sum(rules[r.subject] == rule for r in caught)} |"


def _timed(records: Records) -> Iterator[str]:
    timed = records.of("timed")
    if timed:
        verdicts = Counter(verdict for r in timed for verdict in _verdicts(r))
        said = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
        yield (
            f"\nTimed: {len(timed)} problems against their own code: {said or 'no verdict'}; "
            f"seconds {_spread(timed, 'check_s')}"
        )


def _exploits(records: Records) -> Iterator[str]:
    peers = [peer for peer in PEERS if records.of(f"{peer} exploit")]
    parts = ["exploit", *(f"{peer} exploit" for peer in peers)]
    judged = sorted({r.subject for part in parts for r in records.of(part)})
    if judged:
        yield "\n" + _row("exploit", "here", *(TITLES[peer] for peer in peers))
        yield _row(*("---" for _ in range(len(parts) + 1)))
    for name in judged:
        yield _row(name, *(_ending(records.get(part, name)) for part in parts))


def _peers(records: Records) -> Iterator[str]:
    peers = [p for p in PEERS if records.of(f"{p} identity") or records.of(f"{p} mutant")]
    if not peers:
        return
    seconds = "s: median, largest"
    columns = [
        column for title in ("here", *(TITLES[p] for p in peers)) for column in (title, seconds)
    ]
    yield "\n" + _row("the same problems", *columns)
    yield _row(*("---" for _ in range(len(columns) + 1)))
    for part in ("identity", "mutant"):
        shown = {r.subject for peer in peers for r in records.of(f"{peer} {part}")}
        cells = []
        for name, figure in (
            (part, "check_s"),
            *((f"{peer} {part}", "seconds") for peer in peers),
        ):
            judged = [r for r in records.of(name) if r.subject in shown]
            count = Counter(r.outcome for r in judged).most_common()
            cells.append(", ".join(f"{number} {outcome}" for outcome, number in count))
            cells.append(_spread(judged, figure))
        yield _row(part, *cells)
    for peer in peers:
        stand_ins = sorted(
            {n for r in records.of(f"{peer} identity") for n in r.figures.get("stand_ins", [])}
        )
        if stand_ins:
            yield (
                f"{TITLES[peer]} ran with stand-ins for modules that it imports and does not "
                f"call: {', '.join(stand_ins)}."
            )


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _faults(records: Records) -> Iterator[str]:
    found = faults(records)
    if found:
        yield f"\n{len(found)} of these are this evaluator's fault:"
    for record in sorted(found, key=_order):
        made = records.get("made", record.subject) if record.part == "mutant" else None
        what = (
            (
                f" [{made.figures['rule']}, line {made.figures['line']}: {made.figures['old']} -> "
                f"{made.figures['new']}]"
            )
            if made
            else ""
        )
        said = record.message or ", ".join(_verdicts(record))
        yield f"* {record.part} {record.subject}: {record.outcome}{what} {said}"


def _verdicts(record: Record) -> list[str]:
    return [case["verdict"] for case in record.figures.get("cases", []) if "verdict" in case]


def _entry(record: Record) -> Entry | None:
    found = (
        e for target in cheats.FOLDER for e in cheats.every(target) if e.name == record.subject
    )
    return next(found, None)


def _fooled(record: Record) -> bool:
    entry = _entry(record)
    speedups = [c.get("speedup", 0.0) for c in record.figures.get("cases", [])] or [
        record.figures.get("speedup", 0.0)
    ]
    here = record.part == "exploit"
    claimed = not here or "faster" in _verdicts(record)
    return entry is not None and cheats.fooled(
        entry, record.outcome, max(speedups), claimed=claimed, here=here
    )


def _ending(record: Record | None) -> str:
    if record is None:
        return ""
    speedup = record.figures.get("speedup") or next(
        (c.get("speedup") for c in record.figures.get("cases", [])), None
    )
    figure = (
        f", {speedup:.2f}x" + (f" {' '.join(_verdicts(record))}" if _verdicts(record) else "")
        if speedup
        else ""
    )
    return f"{'fooled: ' if _fooled(record) else ''}{record.outcome}{figure}"


def _spread(records: Sequence[Record], figure: str) -> str:
    values = [float(r.figures[figure]) for r in records if figure in r.figures]
    return f"{statistics.median(values):.1f}, {max(values):.1f}" if values else ""


def _order(record: Record) -> tuple[str, int, int, str]:
    level, _, number = record.subject.partition("/")
    return (
        (record.part, int(level), int(number), "")
        if number.isdigit()
        else (record.part, 0, 0, record.subject)
    )
