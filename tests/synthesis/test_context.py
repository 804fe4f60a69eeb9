"""What an author is shown: inside the budget, in the order of use, with every cut announced."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.types import (
    Budget,
    Candidate,
    CaseResult,
    Ceilings,
    Environment,
    Evaluation,
    Goal,
    MachineReport,
    Signal,
    Spent,
    StageReport,
)
from kevolve_mcp.search.node import Node
from kevolve_mcp.search.provenance import USER_FILE
from kevolve_mcp.synthesis import (
    Excerpt,
    Material,
    Parent,
    SimilarStart,
    Start,
    build_context,
    estimate_tokens,
)
from kevolve_mcp.synthesis.context import MINIMUM_TOKENS

from .helpers import TUNABLE, expansion, node, rmsnorm_task

TEXT = Candidate(TUNABLE, "cpp")
ENVIRONMENT = Environment("cpu:Test:avx512f", "torch 2.13.0, g++ 12.2.0")
MACHINE = MachineReport(
    ENVIRONMENT,
    (),
    {},
    Ceilings({"L1": 2e11, "memory": 2e10}, {}, {"float32": 1e11}, {"L1": 49152}, 0.5),
)


def evaluation(*signals: Signal, status: str = "correct") -> Evaluation:
    cases = (
        CaseResult(
            "only",
            correct=True,
            speedup=1.31,
            interval=(1.28, 1.35),
            verdict="faster",
            baseline="compile",
            latency_us=40.0,
        ),
        CaseResult("secret_case", held_out=True, correct=True, speedup=9.99),
    )
    stages = (
        ()
        if status == "correct"
        else (StageReport("build", False, message="g++ refused", log="kernel.cpp:3: error: nope"),)
    )
    return Evaluation(
        TEXT.digest,
        "cpp",
        "d",
        "cpu",
        "search",
        status,
        "Faster in one of one case.",
        "p",
        ENVIRONMENT,
        signals,
        1.31,
        True,
        cases,
        stages,
    )  # type: ignore[arg-type]


def material(
    history: tuple[Node, ...] = (),
    excerpts: tuple[Excerpt, ...] = (),
    similar: int = 0,
    source: str = TUNABLE,
) -> Material:
    parent = Candidate(source, "cpp")
    found = evaluation(
        Signal("not_vectorized", "scalar loops"), Signal("memory_bound", "91 % of the copy rate")
    )
    return Material(
        "sample-1a2b",
        expansion(),
        rmsnorm_task(),
        "cpu",
        "cpp",
        Goal("speedup", 2.0),
        Budget(evaluations=50),
        Spent(evaluations=8),
        machine=MACHINE,
        parents=(Parent(node(1, parent, 1.31), parent, found),),
        history=history,
        excerpts=excerpts,
        similar=tuple(SimilarStart(f"other{i}", TEXT, 1.5) for i in range(similar)),
    )


def test_it_holds_what_an_author_needs() -> None:
    tried = (
        node(
            2, TEXT, 0.0, hypothesis="drop the last loop", signals=("wrong.tail",), parents=("n1",)
        ),
        node(3, TEXT, 1.4, hypothesis="two accumulators", parents=("n1",)),
    )
    text = build_context(
        material(
            tried,
            (
                Excerpt(
                    "guidance/vectorization", "Vectorisation", "Use simd.", "signal not_vectorized"
                ),
            ),
            1,
        )
    ).text
    for part in (
        "Ask a7: improve n1",
        "sample-1a2b",
        "speedup:2",
        "42 evaluations",
        "float32[32, 4096]",
        "class Model(nn.Module)",
        "cpu:Test:avx512f",
        "1.31 [1.28, 1.35] faster",
        "Dominant: memory_bound: 91 % of the copy rate",
        "PARAMS = ",
        "drop the last loop",
        "wrong.tail",
        "Use simd.",
        "other0",
        "Answer with submit (session sample-1a2b, ask a7).",
        "ModelNew",
    ):
        assert part in text, part
    assert "secret_case" not in text
    assert "9.99" not in text
    assert text.index("Dominant") < text.index("To address afterwards")
    assert text.index("Failed, do not repeat") < text.index("Correct, best first")


def test_a_failed_stage_comes_first_with_its_log() -> None:
    failed = Parent(
        node(1, TEXT, 0.0),
        TEXT,
        evaluation(
            Signal("memory_bound"), Signal("compile_error.syntax", "line 3"), status="build_failed"
        ),
    )
    text = build_context(
        Material("s", expansion("repair"), rmsnorm_task(), "cpu", "cpp", parents=(failed,))
    ).text
    assert "Dominant: compile_error.syntax: line 3" in text
    assert "kernel.cpp:3: error: nope" in text


def test_cuts_are_announced_with_how_to_read_the_rest() -> None:
    pages = tuple(
        Excerpt(f"guidance/p{i}", f"Page {i}", "word " * 2000, "signal memory_bound")
        for i in range(4)
    )
    built = build_context(material(excerpts=pages, similar=2), 3000)
    assert built.tokens <= 3000
    assert "read page (page guidance/p3)" in built.text
    assert built.cuts
    assert all(line in built.text for line in built.cuts)
    assert "PARAMS = " in built.text, "the parent's source outlives knowledge pages"


def test_a_start_ask_carries_the_kernel() -> None:
    start = Start(TEXT, USER_FILE, "given")
    built = build_context(
        Material("s", expansion("start", ()), rmsnorm_task(), "cpu", "cpp", start=start)
    )
    assert built.ask.start is not None
    assert built.ask.start.source == TUNABLE
    assert "Origin: user file" in built.text


def test_the_data_carry_all_that_was_tried_and_the_best_text() -> None:
    best = node(3, TEXT, 1.4)
    shown, tried = (node(2, TEXT, 0.0),), (node(2, TEXT, 0.0), best)
    built = build_context(
        Material(
            "s",
            expansion(),
            rmsnorm_task(),
            "cpu",
            "cpp",
            history=shown,
            tried=tried,
            best=best,
            best_candidate=TEXT,
            seed=4,
        )
    )
    assert [r.node for r in built.ask.history] == ["n2", "n3"]
    assert built.ask.best is not None
    assert built.ask.best.tunables["PASSES"] == (1, 2)
    assert built.ask.seed == 4
    assert "n3" not in built.text.split("Tried before")[1].split("How to answer")[0]


@settings(max_examples=60, deadline=None)
@given(
    budget=st.integers(0, 9000),
    nodes=st.integers(0, 40),
    pages=st.lists(st.integers(0, 9000), max_size=6),
    similar=st.integers(0, 3),
    body=st.integers(0, 60_000),
)
def test_never_longer_than_the_budget(
    budget: int, nodes: int, pages: list[int], similar: int, body: int
) -> None:
    history = tuple(node(i + 2, TEXT, float(i % 3), hypothesis="h" * (i * 7)) for i in range(nodes))
    excerpts = tuple(
        Excerpt(f"guidance/p{i}", "Page", "line\n" * (size // 5)) for i, size in enumerate(pages)
    )
    built = build_context(
        material(history, excerpts, similar, TUNABLE + "# filler\n" * (body // 9)), budget
    )
    assert estimate_tokens(built.text) <= max(budget, MINIMUM_TOKENS)
    assert built.text.startswith("## Ask a7: improve n1")
    assert (
        build_context(
            material(history, excerpts, similar, TUNABLE + "# filler\n" * (body // 9)), budget
        )
        == built
    )
