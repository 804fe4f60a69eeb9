"""Does the library find the right page?

    python benchmarks/retrieval.py [--situations benchmarks/retrieval/situations.jsonl] [--out benchmarks/results]

A situation is what somebody types or what the evaluator found, with the pages that would help, or none. One line of JSON each:
{"kind": "signal", "query": "", "signals": ["memory_bound"], "target": "cuda:sm_90", "language": "triton", "operators": [], "pages": ["guidance/…"],
"held_out": false}. Situations that are held out were not looked at while the ranking was chosen.

Recall@k: the share of situations with an acceptable page among the first k. MRR: the mean of one over the place of the first. For situations
that no page answers: the share in which the library finds nothing or says that nothing really fits; and of the others, in which it says so
wrongly. Ways: everything that is known; without the shelf
(neither signals nor operators, target nor language: words alone). Writes retrieval.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import recording

from knowledge import Library

DEEP = 20
SITUATIONS = Path(__file__).parent / "retrieval" / "situations.jsonl"


def measure(situations: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Figures of each way, over all situations and those held out, and by kind."""
    library = Library.builtin()
    library.search("warm up")
    record: dict[str, Any] = {"situations": len(situations), "pages": len(library.pages())}
    for way in ("everything", "words alone"):
        found = [_found(library, situation, shelf=way == "everything") for situation in situations]
        pairs = list(zip(situations, found, strict=True))
        held = [pair for pair in pairs if pair[0].get("held_out")]
        kinds = sorted({situation["kind"] for situation in situations})
        record[way] = {
            "all": _figures(pairs),
            "held_out": _figures(held),
            "by_kind": {kind: _figures([p for p in pairs if p[0]["kind"] == kind]) for kind in kinds},
        }
        if way == "everything":
            record["missed"] = [
                _described(s, hits) for s, (hits, _, _) in pairs if s["pages"] and not set(s["pages"]) & set(hits[:5])
            ]
    library.close()
    return record


def _found(library: Library, situation: dict[str, Any], *, shelf: bool) -> tuple[list[str], bool, float]:
    """Ids of the hits, whether one really fits, and milliseconds."""
    known = {name: situation.get(name) or "" for name in ("target", "language")} if shelf else {}
    signals, operators = (tuple(situation.get(name) or ()) if shelf else () for name in ("signals", "operators"))
    began = time.perf_counter()
    found = library.search(situation.get("query", ""), signals, limit=DEEP, operators=operators, **known)
    sure = bool(found.hits) and "no page really fits" not in found.note
    return [hit.id for hit in found.hits], sure, 1e3 * (time.perf_counter() - began)


def _figures(pairs: Sequence[tuple[dict[str, Any], tuple[list[str], bool, float]]]) -> dict[str, Any]:
    with_pages = [(set(s["pages"]), hits) for s, (hits, _, _) in pairs if s["pages"]]
    nothing, something = ([sure for s, (_, sure, _) in pairs if bool(s["pages"]) == answered] for answered in (False, True))
    places = [next((n for n, hit in enumerate(hits, 1) if hit in pages), 0) for pages, hits in with_pages]
    took = sorted(ms for _, (_, _, ms) in pairs)
    return {
        "situations": len(pairs),
        "recall@1": _share([place == 1 for place in places]),
        "recall@5": _share([0 < place <= 5 for place in places]),
        "mrr": round(statistics.fmean([1 / place if place else 0.0 for place in places]), 3) if places else None,
        "right_to_doubt": _share([not sure for sure in nothing]),
        "wrong_to_doubt": _share([not sure for sure in something]),
        "p50_ms": round(statistics.median(took), 2) if took else None,
        "p95_ms": round(took[int(0.95 * (len(took) - 1))], 2) if took else None,
    }


def _share(each: Sequence[bool]) -> float | None:
    return round(sum(each) / len(each), 3) if each else None


def _described(situation: dict[str, Any], hits: Sequence[str]) -> dict[str, Any]:
    return {**{k: v for k, v in situation.items() if v}, "found": hits[:5]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--situations", type=Path, default=SITUATIONS)
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    given = parser.parse_args()
    lines = [json.loads(line) for line in given.situations.read_text(encoding="utf-8").splitlines() if line.strip()]
    figures = measure(lines)
    recording.write(given.out, "retrieval", figures)
    for way in ("everything", "words alone"):
        print(f"{way}: {figures[way]['all']}; held out: {figures[way]['held_out']}")
