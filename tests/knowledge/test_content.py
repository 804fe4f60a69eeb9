"""The built-in pages: complete, connected, in the form that readers are promised."""

from __future__ import annotations

import ast
import json
import re

import pytest

from harness.types import VOCABULARY
from kevolve_mcp.sessions.passages import special
from knowledge import Library, Page, coverage
from knowledge.applicability import target_fit
from knowledge.library import BUILTIN

SIGNALS = sorted(VOCABULARY)


@pytest.mark.parametrize("signal", SIGNALS)
def test_every_signal_leads_to_a_page(library: Library, signal: str) -> None:
    results = library.search(signals=[signal])
    assert results.hits
    assert any(signal in library.page(hit.id).signals for hit in results.hits)
    assert signal in results.hits[0].why


def test_pages_name_only_signals_of_the_vocabulary(library: Library) -> None:
    assert {(p.id, s) for p in library.pages() for s in p.signals if s not in VOCABULARY} == set()


def test_there_are_pages_in_every_category(library: Library) -> None:
    by_category: dict[str, int] = {}
    for page in library.pages():
        by_category[page.category] = by_category.get(page.category, 0) + 1
    assert by_category["constraints"] >= 8
    assert by_category["guidance"] >= 25
    assert by_category["hardware"] >= 12


def test_links_and_inheritance_resolve(library: Library) -> None:
    ids = {page.id for page in library.pages()}
    assert {
        (p.id, link) for p in library.pages() for link in (*p.links, *p.inherits) if link not in ids
    } == set()


def test_every_page_is_reachable_from_the_index_and_by_its_own_title(library: Library) -> None:
    index = library.read("index", limit=10**6).text
    for page in library.pages():
        assert f"]({page.id})" in index
        assert page.id in [hit.id for hit in library.search(page.title).hits]


def test_links_on_disk_lead_to_files() -> None:
    """Links in the files are relative paths, so that the folder can be browsed without the
    program."""
    for path in BUILTIN.glob("**/*.md"):
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^()\s]+\.md)\)", text):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_hardware_inherits_upwards_only(library: Library) -> None:
    """A page holds at most for what its ancestors hold for, and stays in its vendor's folder."""
    for page in library.pages():
        for parent in map(library.page, page.inherits):
            assert parent.id.split("/")[:2] == page.id.split("/")[:2]
            for target in page.targets:
                assert target_fit(parent.targets, target.replace("*", "0")) is not None, (
                    page.id,
                    parent.id,
                )
            assert page.id not in parent.inherits


def test_pages_have_a_readable_size(library: Library) -> None:
    for page in library.pages():
        if page.category == "skill":
            continue
        lines = page.body.splitlines()
        assert 25 <= len(lines) <= 170, (page.id, len(lines))
        assert len(page.summary) <= 200, page.id
        assert max(len(line) for line in lines if not line.startswith("|")) <= 170, page.id


def test_pages_say_how_to_verify(library: Library) -> None:
    missing = [
        p.id
        for p in library.pages()
        if p.category in ("guidance", "hardware") and "## Verify" not in p.body
    ]
    assert set(missing) <= {
        "guidance/reading_the_diagnosis",
        "guidance/compile_errors",
        "guidance/crashes",
        "guidance/wrong_results",
        "guidance/search_strategy",
    }


# what an environment names: a machine, or the tool whose output was looked at
ENVIRONMENT = re.compile(
    r"\b(VM|Zen \d|H100|H200|EPYC|Xeon"
    r"|(?:fb)?triton|torch|clang|nvcc|ptxas|numpy|jax|flydsl|cutlass)\b|g\+\+",
    re.IGNORECASE,
)


def test_every_page_has_sources_of_their_kind(library: Library) -> None:
    """What the code says is derived from it; a measurement has an environment or a record."""
    root = BUILTIN.parent
    for page in library.pages():
        assert page.sources, page.id
        for source in page.sources:
            kind, _, what = source.partition(": ")
            if kind != "measured":
                continue
            where = what.partition(": ")[0]
            assert where.startswith("benchmarks/results/") or ENVIRONMENT.search(where), source
            for record in re.findall(r"benchmarks/results/[\w.-]+\w", source):
                assert (root / record).exists(), (page.id, record)
    for skill in library.skills():
        for line in skill.evidence:
            assert line.startswith("none recorded:") or ENVIRONMENT.search(line), skill.id


def test_pages_have_eight_to_fifteen_ways_of_being_asked_for(library: Library) -> None:
    assert {p.id: len(p.asked_as) for p in library.pages() if not 8 <= len(p.asked_as) <= 15} == {}


def test_situations_of_the_benchmark_name_signals_and_pages_that_exist(library: Library) -> None:
    ids = {page.id for page in library.pages()}
    text = (BUILTIN.parent / "benchmarks" / "retrieval" / "situations.jsonl").read_text()
    for situation in map(json.loads, text.splitlines()):
        assert set(situation["signals"]) <= set(SIGNALS), situation
        assert set(situation["pages"]) <= ids, situation


def test_pages_about_traps_are_special(library: Library) -> None:
    traps = [page for page in library.pages() if page.role == "pitfall"]
    assert len(traps) >= 4
    assert all(special(page) for page in traps)


def test_pages_do_not_speak_of_a_machine(library: Library) -> None:
    for page in library.pages():
        assert "/work" not in page.body, page.id
        assert "/root" not in page.body, page.id


def test_python_blocks_parse(library: Library) -> None:
    for page, _, code in blocks(library, "python"):
        ast.parse(code, filename=page.id)


def blocks(library: Library, language: str) -> list[tuple[Page, list[str], str]]:
    """(page, words after the language, code) of every fenced block in `language`."""
    found = []
    for page in library.pages():
        for info, code in re.findall(
            r"^```([^\n]*)\n(.*?)^```", page.body, flags=re.DOTALL | re.MULTILINE
        ):
            name, *words = info.split() or [""]
            if name == language:
                found.append((page, words, code))
    return found


def test_every_signal_has_pages_for_each_vendor_and_language(library: Library) -> None:
    """Those that candidates of one kind of device alone can have are taught there."""
    of_cpus = {"allocation_bound", "narrow_vectors", "page_faults", "partly_vectorized"}
    of_devices = {"waits_for_device"}
    for name, counts in coverage.by_signal(library).items():
        if name in of_devices:
            counts = {kind: count for kind, count in counts.items() if kind != "cpu, cpp"}
        else:
            assert counts["cpu, cpp"], name
        assert all(counts.values()) or name in of_cpus, (name, counts)
    assert "| memory_bound |" in coverage.render(library)
