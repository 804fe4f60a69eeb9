"""What do registered documents add for hardware that no page is about?

    python benchmarks/own_documents.py FOLDER [--out benchmarks/results]

FOLDER holds a checkout of https://github.com/riscvarchive/riscv-v-spec (CC BY 4.0), the
specification of RISC-V's vector extension; it is not part of this project. Ten questions are asked
for the target riscv:rvv before and after it is registered. A question counts as answered when one
of the first three passages, read whole, contains a sentence that the specification answers it with;
these were looked up in it. Writes own_documents_rvv.json.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import recording

from knowledge import Documents, Library

TARGET = "riscv:rvv"
SOURCE = "https://github.com/riscvarchive/riscv-v-spec at 2f68ef7256d6ec53e4d2bd7cb12862f406d64e34"
# each with the sentences of the specification that answer it; one of them must be found
QUESTIONS = (
    ("how is VLMAX computed from VLEN, SEW and LMUL", ("VLMAX = LMUL*VLEN/SEW",)),
    (
        "what happens to tail elements when vta is 1",
        ("can either retain the value they previously held, or are overwritten with 1s",),
    ),
    (
        "which register holds the mask of a masked instruction",
        ("is always supplied by vector register v0",),
    ),
    (
        "may the destination of a widening instruction overlap its source register group",
        ("the overlap is in the highest-numbered part of the destination register group",),
    ),
    (
        "vslideup destination overlaps the source, is that allowed",
        ("for vslideup cannot overlap the source vector register group",),
    ),
    (
        "order of additions in vfredusum, is the sum deterministic",
        (
            "must produce a result equivalent to a reduction tree",
            "the reduction tree structure must be deterministic for a given value in vtype and vl",
        ),
    ),
    (
        "fault only first load for loops with data dependent exit",
        ("only take a trap caused by a synchronous exception on element 0",),
    ),
    (
        "vsetvli with rs1 x0 and rd not x0 sets vl to what",
        ("Set vl to VLMAX", "the resulting VLMAX is written to vl"),
    ),
    (
        "fractional LMUL what is it for, mixed widths",
        ("used to increase the number of effective usable vector register groups",),
    ),
    (
        "how accurate is the reciprocal square root estimate vfrsqrt7",
        ("an estimate of 1/sqrt(x) accurate to 7 bits",),
    ),
)


def plain(text: str) -> str:
    """Without quotation marks of lines, line breaks and the marks of code."""
    lines = (line.removeprefix("> ") for line in text.splitlines())
    return " ".join(" ".join(lines).replace("`", "").split()).lower()


def ask(library: Library) -> list[dict[str, Any]]:
    """Each question with the first three hits, whether the library claims to answer, and whether it
    does."""
    rows = []
    for question, answer in QUESTIONS:
        began = time.perf_counter()
        found = library.search(question, target=TARGET, limit=3)
        took = 1e3 * (time.perf_counter() - began)
        texts = [plain(library.read(hit.id).text) for hit in found.hits]
        rows.append(
            {
                "question": question,
                "claims_to_answer": found.fits,
                "answered": any(sentence.lower() in text for sentence in answer for text in texts),
                "found": [{"id": hit.id, "section": hit.section} for hit in found.hits],
                "ms": round(took, 1),
            }
        )
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    given = parser.parse_args()
    if given.folder is None:
        print("no folder with the specification named: nothing to record")
        raise SystemExit(0)
    with tempfile.TemporaryDirectory() as home:
        documents = Documents(Path(home))
        library = Library.builtin().with_documents(documents)
        before = ask(library)
        added = documents.add(given.folder, "riscv", "rvv")
        after = ask(library)
        record = {
            "target": TARGET,
            "source": SOURCE,
            "documents": len(added.documents),
            "passages": sum(d.passages for d in added.documents),
            "answered_before": sum(row["answered"] for row in before),
            "answered_after": sum(row["answered"] for row in after),
            "claimed_before": sum(row["claims_to_answer"] for row in before),
            "claimed_after": sum(row["claims_to_answer"] for row in after),
            "before": before,
            "after": after,
        }
        library.close()
    print({name: value for name, value in record.items() if name not in ("before", "after")})
    recording.write(given.out, "own_documents_rvv", record)
