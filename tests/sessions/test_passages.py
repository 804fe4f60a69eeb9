"""The pages that an ask brings, for situations put together by hand, from the library that
ships."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.types import Environment, Task
from kevolve_mcp.sessions.passages import Situation, choose, exact_target, special
from kevolve_mcp.synthesis.shown import page_key
from knowledge import Library

NORM = ("aten.pow.Tensor_Scalar", "aten.mean.dim", "aten.rsqrt.default", "aten.mul.Tensor")


@pytest.fixture(scope="module")
def library() -> Iterator[Library]:
    found = Library.builtin()
    yield found
    found.close()


def situation(*operators: str, **facts: object) -> Situation:
    task = Task("t", "d" * 64, "", operators=dict.fromkeys(operators, 1))
    return replace(Situation(task, "cpu:x86_64", "cpp", "improve", 1), **facts)  # type: ignore[arg-type]


def pages(library: Library, given: Situation, had: tuple[str, ...] = ()) -> list[str]:
    return [e.page_id for e in choose(library, given, had, 600).new]


def test_signals_operators_and_role_lead_to_pages(library: Library) -> None:
    assert "guidance/reductions" in pages(
        library, situation(*NORM, signals=("latency_bound",), depth=6)
    )
    assert "skills/row_normalization" in pages(library, situation("aten.add.Tensor", *NORM))
    fixing = pages(
        library,
        situation(
            *NORM, role="repair", signals=("compile_error",), diagnosis="expected ';' before '}'"
        ),
    )
    assert fixing[0] == "guidance/compile_errors"
    assert not any(p.startswith("hardware/") for p in fixing)


def test_a_skill_of_another_pattern_is_left_out(library: Library) -> None:
    signals = ("transcendental_heavy", "memory_bound")
    softmax = situation(
        "aten._log_softmax.default", "aten.nll_loss_forward.default", signals=signals
    )
    assert "skills/softmax_cross_entropy" in pages(library, softmax)
    assert "skills/softmax_cross_entropy" not in pages(
        library, situation("aten.mm.default", signals=signals)
    )


def test_the_architecture_of_the_machine_chooses(library: Library) -> None:
    products = situation(
        "aten.mm.default",
        language="triton",
        signals=("compute_bound",),
        diagnosis="no matrix instructions",
    )
    h200 = Environment("cuda:NVIDIA H200:sm_90:139GiB:driver", "torch 2")
    assert exact_target("cuda", h200) == "cuda:sm_90"
    assert exact_target("cuda:sm_80", h200) == "cuda:sm_80"
    assert (
        exact_target(
            "cpu", Environment("cpu:Some CPU", "torch 2", facts={"architecture": "aarch64"})
        )
        == "cpu:aarch64"
    )
    assert exact_target("cpu", None) == "cpu"
    known = pages(library, replace(products, target="cuda:sm_90"))
    open_ = pages(library, replace(products, target="cuda"))
    assert known
    for page in (library.page(p) for p in open_):
        assert not page.targets or any(":" not in t for t in page.targets), page.id


def test_broad_pages_come_early_and_special_ones_late(library: Library) -> None:
    situations = [
        situation(*operators, target="cuda:sm_90", language="triton", signals=signals)
        for operators in (("aten.mm.default",), NORM, ("aten._softmax.default",))
        for signals in (
            ("compute_bound",),
            ("memory_bound",),
            ("low_occupancy",),
            ("latency_bound",),
        )
    ]

    def share(depth: int) -> float:
        found = [
            library.page(p) for s in situations for p in pages(library, replace(s, depth=depth))
        ]
        return sum(map(special, found)) / len(found)

    assert share(1) < share(8)


def test_each_kind_has_one_place_and_nothing_comes_twice(library: Library) -> None:
    given, had = situation(*NORM, signals=("memory_bound", "page_faults")), list[str]()
    for _ in range(4):
        found = choose(library, given, had, 600)
        kinds = [
            library.page(e.page_id).role or library.page(e.page_id).category
            for e in found.new
            if not e.why.startswith("a link of")
        ]
        assert len(set(kinds)) == len(kinds)
        assert all(len(e.text) <= 600 for e in found.new)
        assert not {page_key(e.page_id) for e in found.new} & set(had)
        assert all(page_key(p) in had for p in found.again)
        had += [page_key(e.page_id) for e in found.new]
    assert len(had) > 4


def test_a_link_is_followed_where_room_is_left_and_the_page_suits(library: Library) -> None:
    given = situation(*NORM, role="repair", signals=("wrong.values",))
    (first, linked) = choose(library, given, (), 1200).new
    assert linked.why == f"a link of {first.page_id}"
    assert linked.page_id in library.page(first.page_id).links
    known = page_key(linked.page_id)
    assert linked.page_id not in [e.page_id for e in choose(library, given, [known], 1200).new]


def test_full_places_leave_no_room_for_a_link(library: Library) -> None:
    given = situation(*NORM, signals=("memory_bound", "latency_bound"), depth=6)
    found = choose(library, given, (), 300).new
    assert sum(len(e.text) for e in found) > 2 * 300
    assert not any(e.why.startswith("a link of") for e in found)


@pytest.mark.parametrize(
    ("features", "shown"), [("avx2 fma avx512f", True), ("avx2 fma", False), ("", True)]
)
def test_a_page_is_shown_where_the_processor_has_what_it_needs(
    library: Library, features: str, shown: bool
) -> None:
    """Where nobody knows the processor, it is shown."""
    given = situation(*NORM, "aten.gelu.default", features=frozenset(features.split()))
    assert ("samples/norm_gelu" in pages(library, given)) == shown


def test_what_nearly_every_task_does_besides_does_not_lead(library: Library) -> None:
    product = situation(
        "aten.stack.default", "aten.sub.Tensor", "aten.mul.Tensor", "aten.mv.default"
    )
    found = pages(library, replace(product, role="draft", depth=0))
    assert "guidance/streaming_stores" not in found
