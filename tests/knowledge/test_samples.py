"""The samples: each candidate passes its own task, as the judge sees it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.native import find_compiler
from harness.types import Candidate, EvaluationRequest
from kevolve_mcp.executors.testing import OpenJudge
from knowledge import Library, Page

CPU = Path("/proc/cpuinfo")
AVX512 = CPU.exists() and "avx512f" in CPU.read_text(encoding="utf-8")
SAMPLES = [
    page
    for page in Library.builtin().pages()
    if page.category == "sample" and "cpp" in page.languages
]


def block(page: Page, kind: str) -> str:
    """The one block of a sample marked `python KIND`."""
    (text,) = re.findall(
        rf"^```python {kind}\n(.*?)^```", page.body, flags=re.DOTALL | re.MULTILINE
    )
    return str(text)


def test_there_are_samples() -> None:
    assert len(SAMPLES) >= 3


@pytest.mark.skipif(find_compiler() is None or not AVX512, reason="needs g++ and AVX-512")
@pytest.mark.parametrize("page", SAMPLES, ids=lambda page: page.id)
def test_the_candidate_is_right(judge: OpenJudge, page: Page) -> None:
    task = judge.run(judge.executor.open_task(block(page, "task"), "", "cpu", timed=False))
    request = EvaluationRequest(Candidate(block(page, "candidate"), "cpp"), "check", "verify")
    found = judge.run(judge.executor.evaluate(task, request, "cpu"))
    assert found.status == "correct", found.message
