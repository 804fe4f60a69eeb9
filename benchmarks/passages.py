"""How fast are many passages found, and how long does their index take?

    python benchmarks/passages.py [--passages 100000] [--queries 400] [--out benchmarks/results]

The documents are generated: words of a vocabulary of 30,000 with the frequencies of Zipf's law, in
sections of 40 to 200 words; one passage in each document holds a name that occurs nowhere else,
which some of the queries ask for. The other queries are two to eight words drawn by frequency, as
questions are, and what an ask sends: signals with names of operators. A query is one call of
Documents.search on an index that is there; every tenth finds its folder not looked at for some
seconds and looks at all files again. The processor's time is shown as well, since it holds on a
busy machine, too. Writes passages.json.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

import recording

from knowledge import Documents
from knowledge.search import query_terms

TARGET = "acme:x1"
WORDS = 30_000
SECTIONS = 250  # of one document
SIGNALS = (
    ("memory_bound",),
    ("not_vectorized", "register_spill"),
    ("compile_error", "latency_bound"),
)
SEARCH = (
    "import sys; from pathlib import Path; from knowledge import Documents; "
    "Documents(Path(sys.argv[1])).search(['v17'], target='acme:x1')"
)


def make(folder: Path, passages: int, seed: int) -> tuple[list[str], list[float]]:
    """About so many passages in Markdown files. The vocabulary, and its cumulative weights."""
    drawn = random.Random(seed)
    plain = [
        "bandwidth",
        "prefetch",
        "vector",
        "lane",
        "register",
        "spill",
        "latency",
        "stall",
        "cache",
        "tile",
        "barrier",
        "rounding",
        "gather",
        "reduction",
        "the",
        "of",
        "and",
        "to",
        "in",
        "is",
        "for",
    ]
    words = plain[::-1] + [f"v{n}" for n in range(WORDS)]
    weights = list(accumulate(1 / (n + 2) for n in range(len(words))))
    left, number = passages, 0
    while left > 0:
        sections = []
        for n in range(min(SECTIONS, left)):
            text = drawn.choices(words, cum_weights=weights, k=drawn.randint(40, 200))
            if n == 7:
                text.insert(20, f"unique{number}")
            sections.append(
                f"## Section {n} {' '.join(text[:4])}\n\n"
                + "\n".join(" ".join(text[i : i + 14]) for i in range(0, len(text), 14))
            )
        (folder / f"manual{number}.md").write_text(
            f"# Manual {number}\n\n" + "\n\n".join(sections) + "\n"
        )
        left -= SECTIONS
        number += 1
    return words, weights


def measure(passages: int, queries: int, seed: int = 1) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        folder, home = Path(scratch) / "manuals", Path(scratch) / "home"
        folder.mkdir()
        words, weights = make(folder, passages, seed)
        files = len(list(folder.iterdir()))
        began = time.perf_counter()
        added = Documents(home).add(folder, "acme", "x1")
        built = time.perf_counter() - began
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", SEARCH, str(home)],
            check=True,
            env={**os.environ, "PYTHONPATH": str(recording.ROOT)},
        )
        cold = time.perf_counter() - began
        documents = Documents(home, recheck_s=1e9)
        drawn = random.Random(seed + 1)
        kinds: dict[str, list[float]] = {
            "one name": [],
            "words": [],
            "ask": [],
            "all": [],
            "all, processor": [],
        }
        right = 0
        for n in range(queries):
            kind = ("one name", "words", "ask")[n % 3]
            named = drawn.randrange(files)
            signals = drawn.choice(SIGNALS) if kind == "ask" else ()
            some = drawn.choices(words, cum_weights=weights, k=drawn.randint(2, 8))
            query = " ".join(
                [f"unique{named}", *some[:2]]
                if kind == "one name"
                else [*signals, "native_layer_norm", "add"]
                if signals
                else some
            )
            if n % 10 == 0:
                documents = Documents(home, recheck_s=1e9)
            began, used = time.perf_counter(), time.process_time()
            found = documents.search(query_terms(query), signals, TARGET)
            kinds["all, processor"].append(1e3 * (time.process_time() - used))
            took = 1e3 * (time.perf_counter() - began)
            kinds[kind].append(took)
            kinds["all"].append(took)
            right += kind == "one name" and found.hits[0].id.startswith(
                f"documents/acme-x1/manual{named}.md@"
            )
        (folder / "manual0.md").write_text("# Changed\n\nThe grumble.\n")
        began = time.perf_counter()
        changed = Documents(home).search(["grumble"], target=TARGET)
        again = time.perf_counter() - began
        size = sum(path.stat().st_size for path in home.rglob("passages-*.db"))
        shutil.rmtree(folder)
    return {
        "passages": sum(d.passages for d in added.documents),
        "documents": files,
        "index_mib": round(size / 2**20, 1),
        "build_s": round(built, 1),
        "first_search_of_a_process_s": round(cold, 2),
        "query_ms": {kind: _figures(times) for kind, times in kinds.items()},
        "names_found_first": round(right / max(1, len(kinds["one name"])), 3),
        "one_document_changed_s": round(again, 2),
        "change_found": bool(changed.hits),
        "load_average": round(os.getloadavg()[0], 1),
        "cpus": os.cpu_count(),
        "python": sys.version.split()[0],
    }


def _figures(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "p50": round(statistics.median(ordered), 1),
        "p95": round(ordered[int(0.95 * (len(ordered) - 1))], 1),
        "max": round(ordered[-1], 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passages", type=int, nargs="+", default=[3_000, 20_000, 100_000])
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    given = parser.parse_args()
    figures = [measure(count, given.queries) for count in given.passages]
    for row in figures:
        print(row)
    recording.write(given.out, "passages", {"sizes": figures})
