"""Two-stage search: the shelf by signals, target and language; the page by words."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge import Library, QueryError, parse_page, sections

ALL = 50


def ids(library: Library, query: str = "", **filters: object) -> list[str]:
    """All of them, page by page."""
    found, cursor = list[str](), 0
    while True:
        results = library.search(query, limit=ALL, cursor=cursor, **filters)  # type: ignore[arg-type]
        found += [hit.id for hit in results.hits]
        if results.next_cursor is None:
            return found
        cursor = results.next_cursor


def test_a_signal_chooses_the_specific_page_first(library: Library) -> None:
    assert ids(library, signals=["division_heavy"])[0] == "guidance/division_and_sqrt"
    assert ids(library, signals=["wrong.race"])[0] == "guidance/races"
    assert (
        ids(library, signals=["register_spill"], target="cpu", language="cpp")[0]
        == "guidance/register_pressure"
    )
    assert (
        "constraints/inputs_and_parameters" in ids(library, signals=["wrong.stale_parameters"])[:2]
    )


def test_the_first_signal_of_the_query_counts_most(library: Library) -> None:
    assert (
        ids(library, signals=["division_heavy", "gather_heavy"])[0] == "guidance/division_and_sqrt"
    )
    assert (
        ids(library, signals=["gather_heavy", "division_heavy"])[0]
        == "guidance/gathers_and_lookups"
    )


def test_why_names_signal_target_language_and_words(library: Library) -> None:
    found = library.search(
        "gather prefetch zzzz", signals=["gather_heavy"], target="cpu", language="cpp", limit=ALL
    )
    hit = next(h for h in found.hits if h.id == "hardware/cpu/x86/avx512")
    assert "signal gather_heavy" in hit.why
    assert "target cpu" in hit.why
    assert "language cpp" in hit.why
    assert "gather" in hit.why.partition("words:")[2]
    assert "zzzz" not in hit.why


def test_a_signal_finds_pages_of_its_parent_and_children(library: Library) -> None:
    assert ids(library, signals=["compile_error.brand_new"])[0] == "guidance/compile_errors"
    assert "guidance/wrong_results" in ids(library, signals=["wrong"])


def test_words_choose_the_page(library: Library) -> None:
    assert ids(library, "non-temporal stores")[0] == "guidance/streaming_stores"
    assert ids(library, "binary search bucketize")[0] == "guidance/gathers_and_lookups"
    assert ids(library, "load_cpp signatures")[0] == "constraints/native_build"
    assert ids(library, "online softmax running maximum")[0] == "guidance/online_softmax"


def test_questions_are_answered(library: Library) -> None:
    assert "guidance/transcendentals" in ids(library, "how do I make exp fast")[:3]
    assert "guidance/numerical_stability" in ids(library, "why does my kernel return NaN?")[:3]
    assert ids(library, "why is zmm not used")[0] == "hardware/cpu/x86/avx512"
    assert ids(library, "how to do it")


def test_words_are_stemmed(library: Library) -> None:
    assert ids(library, "vectorizing")[0] == ids(library, "vectorized")[0]


def test_an_architecture_finds_its_own_pages_and_what_they_inherit(library: Library) -> None:
    found = ids(library, target="cuda:sm_90")
    assert {
        "hardware/nvidia/hopper",
        "hardware/nvidia/memory_hierarchy",
        "hardware/nvidia/occupancy",
    } <= set(found)
    others = [i for i in found if i.startswith(("hardware/amd", "hardware/cpu"))]
    assert others == []
    assert "hardware/nvidia/ampere_and_ada" not in found
    assert "hardware/nvidia/blackwell" not in found
    assert "guidance/reductions" in found


@pytest.mark.parametrize("query", ["MFMA wavefront LDS", "HIP", "bank-conflict"])
def test_words_never_bring_in_another_vendor(library: Library, query: str) -> None:
    assert [i for i in ids(library, query, target="cuda:sm_90") if "amd" in i] == []


def test_suffixed_architectures_count_as_their_base(library: Library) -> None:
    assert "hardware/nvidia/hopper" in ids(library, target="cuda:sm_90a")
    assert "hardware/nvidia/blackwell" in ids(library, target="cuda:sm_103f")


def test_product_architecture_and_vendor_pages(library: Library) -> None:
    found = ids(library, target="hip:gfx942")
    assert found[:2] == ["hardware/amd/cdna", "hardware/amd/gfx942"]
    assert "hardware/amd/execution_model" in found
    assert "hardware/amd/rdna" not in found
    assert [i for i in found if "nvidia" in i] == []
    broader = ids(library, target="hip:gfx90a")
    assert "hardware/amd/cdna" in broader
    assert "hardware/amd/gfx942" not in broader


def test_a_bare_family_ranks_architecture_pages_last(library: Library) -> None:
    found = ids(library, target="cuda")
    assert found.index("hardware/nvidia/memory_hierarchy") < found.index("hardware/nvidia/hopper")
    assert [i for i in found if "amd" in i] == []


def test_the_processor_family_can_be_named(library: Library) -> None:
    x86, arm = ids(library, target="cpu:x86_64"), ids(library, target="cpu:aarch64")
    assert "hardware/cpu/x86/avx512" in x86
    assert "hardware/cpu/arm/sve" not in x86
    assert "hardware/cpu/arm/sve" in arm
    assert "hardware/cpu/x86/avx512" not in arm
    assert "hardware/cpu/core_model" in set(x86) & set(arm)


def test_inheritance_admits_ancestors_only() -> None:
    def page(name: str, rest: str) -> str:
        return (
            f"---\ntitle: {name}\ncategory: hardware\nsummary: About it.\n{rest}---\n# {name}\n\n"
            "Text.\n"
        )

    vendor = parse_page("hardware/v/vendor", page("Vendor", "applies_to: {targets: [npu:any]}\n"))
    chip = parse_page(
        "hardware/v/chip",
        page("Chip", "applies_to: {targets: [npu:one]}\ninherits: hardware/v/vendor\n"),
    )
    other = parse_page(
        "hardware/v/other",
        page("Other", "applies_to: {targets: [npu:two]}\ninherits: hardware/v/vendor\n"),
    )
    library = Library([vendor, chip, other])
    hits = {hit.id: hit.why for hit in library.search(target="npu:one").hits}
    assert set(hits) == {"hardware/v/chip", "hardware/v/vendor"}
    assert hits["hardware/v/vendor"] == "target inherited by hardware/v/chip"


def test_language_hides_pages_of_other_languages(library: Library) -> None:
    assert "guidance/triton_idioms" in ids(library, "mask load", target="cuda", language="triton")
    assert "guidance/triton_idioms" not in ids(library, "mask load", target="cuda", language="cuda")
    assert "guidance/vectorization" not in ids(library, "vectorization", language="triton")


def test_without_a_query_the_whole_shelf_is_listed(library: Library) -> None:
    assert len(ids(library)) == len(library.pages())
    assert library.search().total == len(library.pages())


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        "bank-conflict",
        '"unbalanced quote',
        "it's",
        "''",
        '"""',
        "a AND b OR NOT c NEAR(x y)",
        "title:vector* ^x {y} (z",
        "ärger 加速 ядро 🚀",
        "\0null\0",
        "-",
        "*",
        "col : val + - / \\",
        "x" * 5000,
        "__restrict__ data_ptr() wrong.tail compile_error.syntax",
    ],
)
def test_any_text_is_a_query(library: Library, query: str) -> None:
    results = library.search(query)
    assert results.total >= 0


def test_hyphens_and_underscores(library: Library) -> None:
    assert "hardware/nvidia/memory_hierarchy" in ids(library, "bank-conflict", target="cuda")[:3]
    assert ids(library, "num_warps")
    assert ids(library, "compile_error.shape_mismatch")


@settings(max_examples=60, deadline=None)
@given(query=st.text(max_size=80))
def test_any_generated_text_is_a_query(library: Library, query: str) -> None:
    library.search(query)


def test_long_queries_say_what_was_left_out(library: Library) -> None:
    note = library.search(" ".join(f"word{i}" for i in range(100))).note
    assert "first 48" in note


def test_unknown_signals_are_named_with_near_ones(library: Library) -> None:
    assert "memory_bound" in library.search(signals=["memory_bond"]).note


def test_a_filter_that_hides_everything_is_named(library: Library) -> None:
    results = library.search(signals=["page_faults"], target="cuda", language="triton")
    assert results.hits == ()
    assert "without them" in results.note


def test_pages_of_results_join_up(library: Library) -> None:
    whole = ids(library, "memory")
    assert len(whole) > 7
    joined: list[str] = []
    cursor: int | None = 0
    while cursor is not None:
        part = library.search("memory", limit=3, cursor=cursor)
        assert part.total == len(whole)
        joined += [hit.id for hit in part.hits]
        cursor = part.next_cursor
    assert joined == whole


def test_a_cursor_behind_the_end_gives_nothing(library: Library) -> None:
    assert library.search("memory", cursor=10_000).hits == ()


@pytest.mark.parametrize(("limit", "cursor"), [(0, 0), (51, 0), (-1, 0), (5, -1)])
def test_bad_limits_are_explained(library: Library, limit: int, cursor: int) -> None:
    with pytest.raises(QueryError):
        library.search("x", limit=limit, cursor=cursor)


def test_snippets_show_the_place_or_the_summary(library: Library) -> None:
    with_words = library.search("sfence").hits[0]
    assert "sfence" in with_words.snippet
    page = library.search(signals=["gather_heavy"]).hits[0]
    assert page.snippet == library.page(page.id).summary


def test_search_from_several_threads(library: Library) -> None:
    found: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: found.append(ids(library, "softmax"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(result == found[0] for result in found)


def page_of(title: str, body: str, **fields: str) -> str:
    head = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return (
        f"---\ntitle: {title}\ncategory: guidance\nsummary: About {title}.\n{head}---\n"
        f"# {title}\n\n{body}"
    )


def test_the_section_that_fits_is_named_and_can_be_shown() -> None:
    body = (
        "Some words first.\n\n## Stores\n\nStreaming stores pass the cache.\n\n## Loads\n\n"
        "Prefetch the next rows.\n"
    )
    library = Library([parse_page("guidance/one", page_of("One", body))])
    (hit,) = library.search("prefetch rows").hits
    assert hit.section == "Loads"
    assert library.passage("guidance/one", hit.section) == "## Loads\n\nPrefetch the next rows.\n"
    assert library.passage("guidance/one", "none of that name").startswith("# One")
    assert len(library.passage("guidance/one", "Stores", limit=12)) <= 12
    library.close()


def test_code_does_not_begin_a_section() -> None:
    body = "```python\n## a comment\nx = 1\n```\n\n## Real\n\nText.\n"
    page = parse_page("guidance/one", page_of("One", body))
    assert [section.heading for section in sections.split(page.body)] == ["", "Real"]
    assert "".join(section.text for section in sections.split(page.body)) == page.body


def test_operators_lead_to_pages_of_their_family() -> None:
    norm = parse_page("guidance/norm", page_of("Rows", "Text.", families="[normalization]"))
    other = parse_page("guidance/other", page_of("Tiles", "Text.", families="[matmul]"))
    library = Library([norm, other])
    assert ids(library, operators=["aten.native_layer_norm.default"]) == ["guidance/norm"]
    assert ids(library, "native_layer_norm") == ["guidance/norm"]
    assert "operators: normalization" in library.search("native_layer_norm").hits[0].why
    library.close()


def test_a_rare_signal_counts_more_than_a_common_one() -> None:
    common = [
        parse_page(f"guidance/c{n}", page_of(f"C{n}", "Text.", signals="[memory_bound]"))
        for n in range(9)
    ]
    rare = parse_page("guidance/rare", page_of("Rare", "Text.", signals="[gather_heavy]"))
    library = Library([*common, rare])
    assert ids(library, signals=["memory_bound", "gather_heavy"])[0] == "guidance/rare"
    library.close()


def test_how_it_is_asked_leads_to_the_page(library: Library) -> None:
    asked = parse_page(
        "guidance/asked",
        page_of("Plain", "Text.", asked_as='["why on earth is it so slow after lunch"]'),
    )
    own = Library([*library.pages(), asked])
    assert ids(own, "so slow after lunch")[0] == "guidance/asked"
    own.close()


def test_words_that_nothing_answers_say_so(library: Library) -> None:
    assert (
        "no page matches these words well" in library.search("birthday cake for my aunt").note
        or not library.search("birthday cake aunt").hits
    )
    assert (
        "no page matches these words well"
        not in library.search("softmax gives nan when the first block is masked").note
    )
