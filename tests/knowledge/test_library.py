"""Loading, reading, extending; and errors that say what to fix."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from knowledge import (
    KnowledgeError,
    Library,
    PageError,
    PageNotFound,
    QueryError,
    parse_page,
    parse_skill,
    read_folder,
)

GOOD = (
    "---\ntitle: Loop order\ncategory: guidance\nsummary: Which loop goes inside.\n"
    "signals: [memory_bound]\n---\n"
    "# Loop order\n\nText.\n"
)
SKILL = (
    "---\ntitle: Tiled copy\ncategory: skill\nsummary: Copies in tiles.\nsignals: [memory_bound]\n"
    "applies_to: {targets: [cpu]}\n"
    "pattern:\n  operators: [aten.clone]\n  rank: 2\ntemplates: [kernel.py]\n---\n# Tiled copy\n\n"
    "Method.\n"
)


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_read_gives_the_page_without_front_matter(library: Library) -> None:
    reading = library.read("guidance/vectorization")
    assert reading.text.startswith("# Vectorization\n")
    assert reading.next_offset is None
    assert reading.total == len(reading.text)
    assert "](guidance/reductions)" in reading.text
    assert "guidance/reductions" in reading.links


@pytest.mark.parametrize("limit", [1, 100, 700])
def test_read_in_parts(library: Library, limit: int) -> None:
    whole = library.read("guidance/reductions", limit=10**6).text[:3000]
    text, offset = "", 0
    while len(text) < len(whole):
        part = library.read("guidance/reductions", offset=offset, limit=limit)
        assert 0 < len(part.text) <= limit
        text += part.text
        assert part.next_offset is not None
        offset = part.next_offset
    assert text.startswith(whole)


def test_parts_end_at_line_ends(library: Library) -> None:
    assert library.read("guidance/reductions", limit=700).text.endswith("\n")


@pytest.mark.parametrize(("offset", "limit"), [(-1, 10), (10**7, 10), (0, 0)])
def test_read_outside_the_page_is_explained(library: Library, offset: int, limit: int) -> None:
    with pytest.raises(QueryError, match="characters"):
        library.read("guidance/reductions", offset, limit)


def test_other_spellings_of_an_id(library: Library) -> None:
    assert library.read("knowledge/guidance/reductions.md").id == "guidance/reductions"


def test_unknown_ids_list_near_ones(library: Library) -> None:
    with pytest.raises(PageNotFound) as caught:
        library.read("guidance/vectorisation")
    assert "guidance/vectorization" in caught.value.hint
    assert caught.value.as_dict()["code"] == "not_found"
    with pytest.raises(PageNotFound) as caught:
        library.read("avx512")
    assert "hardware/cpu/x86/avx512" in caught.value.hint


def test_index_page_covers_added_pages(library: Library) -> None:
    more = library.extended(pages=[parse_page("guidance/loop_order", GOOD)])
    text = more.read("index", limit=10**6).text
    assert (
        "[Loop order](guidance/loop_order) `guidance/loop_order`: Which loop goes inside." in text
    )
    assert "guidance/loop_order" not in library.read("index", limit=10**6).text


def test_extended_library_finds_written_skills(library: Library) -> None:
    skill = parse_skill("skills/tiled_copy", SKILL, {"kernel.py": "x = 1\n"})
    more = library.extended(skills=[skill])
    assert skill in more.skills()
    assert more.skills() != library.skills()
    assert more.read("skills/tiled_copy").category == "skill"
    assert "skills/tiled_copy" in [hit.id for hit in more.search("tiled copy", target="cpu").hits]
    assert more.extended().skills() == more.skills()


def test_an_id_may_be_taken_once(library: Library) -> None:
    with pytest.raises(PageError, match="two pages have the id 'guidance/reductions'"):
        library.extended(pages=[parse_page("guidance/reductions", GOOD, "mine.md")])


def test_builtin_skills_are_complete(library: Library) -> None:
    for skill in library.skills():
        assert skill.page.category == "skill"
        assert all(name in skill.files for name in skill.templates)


def test_folder_with_pages_and_skills(tmp_path: Path) -> None:
    write(
        tmp_path,
        "guidance/loop_order.md",
        GOOD.replace("Text.", "See [the skill](../skills/tiled_copy/skill.md)."),
    )
    write(tmp_path, "skills/tiled_copy/skill.md", SKILL)
    write(tmp_path, "skills/tiled_copy/kernel.py", "x = 1\n")
    write(tmp_path, "README.md", "no front matter, not a page")
    write(tmp_path, ".git/notes/x.md", "not a page either")
    library = Library.load([tmp_path])
    assert library.page("guidance/loop_order").links == ("skills/tiled_copy",)
    skill = next(s for s in library.skills() if s.id == "skills/tiled_copy")
    assert skill.pattern == {"operators": ["aten.clone"], "rank": 2}
    assert skill.files == {"kernel.py": "x = 1\n"}
    assert skill.templates == ("kernel.py",)


def test_empty_and_missing_folders(tmp_path: Path) -> None:
    assert read_folder(tmp_path) == ([], [])
    (tmp_path / "skills").mkdir()
    assert read_folder(tmp_path) == ([], [])
    with pytest.raises(PageError, match="not a folder"):
        read_folder(tmp_path / "absent")


def test_a_library_without_pages_answers() -> None:
    library = Library()
    assert library.search("anything", signals=["memory_bound"]).hits == ()
    assert library.skills() == ()
    assert "(none yet)" in library.read("index").text
    with pytest.raises(PageNotFound):
        library.read("guidance/x")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# Loop order\n", "line 1 must be '---'"),
        (GOOD.replace("---\n# Loop", "# Loop"), "no closing '---'"),
        (GOOD.replace("title: Loop order", "title: Loop: order"), "line 2: not valid YAML"),
        (GOOD.replace("title: Loop order\n", ""), "field 'title' is missing"),
        (GOOD.replace("title: Loop order", "title: 3"), "field 'title' must be one line of text"),
        (GOOD.replace("summary: Which loop goes inside.\n", ""), "field 'summary' is missing"),
        (GOOD.replace("category: guidance\n", ""), "field 'category' is missing"),
        (
            GOOD.replace("category: guidance", "category: hardware"),
            "field 'category' is 'hardware', but the page is in guidance/",
        ),
        (
            GOOD.replace("signals: [memory_bound]", "signals: {a: 1}"),
            "field 'signals' must be a list",
        ),
        (GOOD.replace("signals: [memory_bound]", "signals: [1]"), "field 'signals' must be a list"),
        (GOOD.replace("signals:", "signal:"), "unknown field 'signal'"),
        (GOOD.replace("signals: [memory_bound]", "pattern: {a: 1}"), "unknown field 'pattern'"),
        (
            GOOD.replace("signals: [memory_bound]", "applies_to: {targets: [CUDA SM90]}"),
            "field 'targets': 'CUDA SM90' is not a target",
        ),
        (
            GOOD.replace("signals: [memory_bound]", "applies_to: {vendors: [x]}"),
            "unknown field 'vendors'",
        ),
        (GOOD.replace("signals: [memory_bound]", "targets: [cpu]"), "unknown field 'targets'"),
        (
            GOOD.replace("signals: [memory_bound]", "families: [softmaxes]"),
            "field 'families': 'softmaxes' is not known",
        ),
        (
            GOOD.replace("signals: [memory_bound]", "role: advice"),
            "field 'role': 'advice' is not known",
        ),
        (
            GOOD.replace("signals: [memory_bound]", "sources: [a friend]"),
            "is neither an address nor a measurement",
        ),
        (GOOD.replace("# Loop order", "# Loops"), "must begin with the title"),
        ("---\njust words\n---\n# x\n", "must be 'name: value' lines"),
    ],
)
def test_front_matter_errors_name_file_and_field(text: str, problem: str) -> None:
    with pytest.raises(PageError) as caught:
        parse_page("guidance/loop_order", text, "folder/loop_order.md")
    assert caught.value.message.startswith("folder/loop_order.md: ")
    assert problem in caught.value.message
    assert caught.value.hint


def test_a_page_says_when_it_holds_and_where_it_is_from() -> None:
    more = (
        "role: pitfall\napplies_to: {targets: ['cuda:sm_90'], products: [H200], languages: "
        "[triton], versions: {triton: '>=3.4'}}\n"
        "families: [matmul, attention]\nasked_as: [why is my loop slow]\n"
        "preconditions: [rows of at most 4096]\n"
        "sources: ['https://example.org/manual : widths', 'measured: H200, torch 2.11: 4.2 TB/s']"
    )
    page = parse_page("guidance/loop_order", GOOD.replace("signals: [memory_bound]", more))
    assert (page.role, page.targets, page.products, page.languages) == (
        "pitfall",
        ("cuda:sm_90",),
        ("H200",),
        ("triton",),
    )
    assert (page.versions, page.families) == ({"triton": ">=3.4"}, ("matmul", "attention"))
    assert (page.asked_as, page.preconditions) == (
        ("why is my loop slow",),
        ("rows of at most 4096",),
    )
    assert len(page.sources) == 2


def test_near_field_names_are_suggested() -> None:
    with pytest.raises(PageError) as caught:
        parse_page("guidance/loop_order", GOOD.replace("signals:", "signal:"))
    assert "Did you mean 'signals'?" in caught.value.hint


@pytest.mark.parametrize(
    "page_id", ["tips/loop_order", "guidance", "guidance/Loop Order", "guidance/../x"]
)
def test_bad_ids_are_refused(page_id: str) -> None:
    with pytest.raises(PageError, match="is not a page id"):
        parse_page(page_id, GOOD)


def test_skill_errors() -> None:
    with pytest.raises(PageError, match=r"names 'kernel.py', which the folder lacks"):
        parse_skill("skills/tiled_copy", SKILL, {})
    listed = SKILL.replace("pattern:\n  operators: [aten.clone]\n  rank: 2", "pattern: [a]")
    with pytest.raises(PageError, match="field 'pattern' must be a mapping"):
        parse_skill("skills/tiled_copy", listed, {"kernel.py": ""})
    with pytest.raises(PageError, match="must begin with 'skills/'"):
        parse_skill("guidance/loop_order", GOOD, {})


def test_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    write(tmp_path, "guidance/x.md", "")
    (tmp_path / "guidance" / "x.md").write_bytes(b"\xff\xfe")
    with pytest.raises(PageError, match="not UTF-8"):
        read_folder(tmp_path)


def test_all_errors_share_one_base() -> None:
    assert {PageError.code, PageNotFound.code, QueryError.code} == {
        "bad_page",
        "not_found",
        "usage",
    }
    assert all(issubclass(error, KnowledgeError) for error in (PageError, PageNotFound, QueryError))


def test_links_in_code_are_left_alone() -> None:
    page = parse_page(
        "guidance/loop_order",
        GOOD.replace(
            "Text.", "```cpp\nf[a](b.md)\n```\n\n[x](https://e.org/a.md) [y](other.md#part)"
        ),
    )
    assert "f[a](b.md)" in page.body
    assert "(https://e.org/a.md)" in page.body
    assert page.links == ("guidance/other",)


def test_closing_frees_the_index_and_searching_builds_it_again() -> None:
    library = Library([parse_page("guidance/loop_order", GOOD)])
    assert library.search("loop").total == 1
    library.close()
    library.close()
    assert library.search("loop").total == 1


def test_the_committed_index_is_current() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "knowledge.index", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_brings_in_no_database_or_harness() -> None:
    code = (
        "import sys, knowledge; print([m for m in ('harness', 'torch', 'mcp', 'sqlalchemy', "
        "'kevolve_mcp.settings', 'knowledge.documents', 'filelock') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
