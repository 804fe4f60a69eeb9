"""The renderers: data in, text out."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console, RenderableType

from harness.types import (
    Budget,
    CaseResult,
    Environment,
    Evaluation,
    Signal,
    Spent,
    StageReport,
    Status,
)
from kevolve_mcp import api, quantities
from kevolve_mcp.cli.render.board import Board, board_view, plain_line
from kevolve_mcp.cli.render.cases import cases_table, naive_note
from kevolve_mcp.cli.render.report import report_json, report_view
from kevolve_mcp.cli.render.tree import sessions_table, tree_view
from kevolve_mcp.cli.render.verdicts import verdict_view
from kevolve_mcp.cli.verdicts import Verdict, all_correct
from kevolve_mcp.driver import RunOutcome, Told, events
from kevolve_mcp.search import Origin

CASE = CaseResult(
    "large",
    correct=True,
    speedup=1.83,
    interval=(1.79, 1.88),
    verdict="faster",
    baseline="compile",
    baselines={"eager": 7000.0, "compile": 4600.0},
    latency_us=2513.7,
    roofline_fraction=0.81,
    allocation="reused",
    naive_speedup=15.2,
)
NODE = api.Node(
    "n7",
    ("n2",),
    fitness=1.83,
    interval=(1.79, 1.88),
    role="tune",
    params={"VEC": 8},
    hypothesis="wider vectors",
)
START = api.Node(
    "n2",
    fitness=1.21,
    interval=(1.2, 1.22),
    role="start",
    origin=Origin("skill", "row_normalization"),
)
SESSION = api.Session(
    "rows-7f3a",
    "open",
    "rows",
    "cpu",
    "cpp",
    "best",
    budget=Budget(evaluations=40, seconds=240),
    spent=Spent(12, 75),
    nodes=2,
    best=NODE,
)
FIGURE = api.Evaluation(
    "e9",
    message="fine",
    fitness=1.83,
    interval=(1.79, 1.88),
    cases=(CASE,),
    device="cpu:x",
    isolation="namespaces",
)
ENDING = api.Finished(
    session=replace(SESSION, state="finished"),
    state="finished",
    reason="budget",
    node=NODE,
    confirmed=FIGURE,
    measured=FIGURE,
    package="/packages/rows",
    lineage=(START, NODE),
    rejected={"n9": "held-out case wrong"},
    skills=(api.Skill("k1", "Wide vectors for rows", "quarantine", 1.2),),
)
OUTCOME = RunOutcome(ENDING.session, "budget", 2, ENDING)


def text_of(renderable: RenderableType, width: int = 200) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(renderable)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.456, "0.46 µs"),
        (12.34, "12.3 µs"),
        (999.0, "999 µs"),
        (4560.0, "4.56 ms"),
        (1.2e6, "1.20 s"),
    ],
)
def test_times_carry_the_unit_that_suits(value: float | None, shown: str) -> None:
    assert quantities.microseconds(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(-3, "0 s"), (42.4, "42 s"), (185, "3 min 05 s"), (7800, "2 h 10 min")]
)
def test_durations(value: float, shown: str) -> None:
    assert quantities.duration(value) == shown


def test_the_table_shows_every_baseline_the_kernel_and_how_it_was_run() -> None:
    shown = text_of(cases_table([CASE]))
    for part in (
        "eager",
        "compile",
        "7.00 ms",
        "4.60 ms",
        "2.51 ms",
        "1.83×",
        "[1.79, 1.88]",
        "faster",
        "81 %",
        "reused",
    ):
        assert part in shown


def test_a_wrong_case_and_an_untimed_one_say_so() -> None:
    shown = text_of(
        cases_table([CaseResult("a", correct=False), CaseResult("b", correct=True, protected=True)])
    )
    assert "wrong" in shown
    assert "not timed" in shown
    assert "b (protected)" in shown


def test_the_unfair_figure_is_shown_with_the_reason_against_it() -> None:
    note = naive_note([CASE])
    assert "15.20× instead of 1.83×" in note
    assert "page faults" in note
    assert naive_note([replace(CASE, naive_speedup=None)]) == ""


def test_the_board_follows_the_events() -> None:
    told = Told("submit", FIGURE, node=NODE, best=NODE, new_best=True, spent=Spent(13, 80))
    failed = replace(told, node=replace(NODE, id="n8", status="build_failed"), spent=Spent(14, 90))
    board = Board()
    for event in (
        events.SessionOpened(replace(SESSION, best=None)),
        events.NodeEvaluated(told, 1),
        events.BestImproved(NODE),
        events.SkillsLearned("n7", "VEC=8: 1.20× its parent"),
        events.NodeEvaluated(failed, 2),
        events.Working("a4", "time: 3 of 5 pairs", 0.6),
    ):
        board = board.after(event)
    shown = text_of(board_view(board))
    for part in (
        "rows-7f3a",
        "4 evaluated, 1 not correct",
        "n7  1.83× [1.79, 1.88]",
        "26 of 40 evaluations, 2 min 30 s left",
    ):
        assert part in shown
    assert "VEC=8: 1.20× its parent" in shown
    assert "a4: time: 3 of 5 pairs" in shown


def test_without_a_terminal_every_event_that_matters_is_one_line() -> None:
    board = Board().after(events.SessionOpened(SESSION))
    line = plain_line
    assert (
        line(events.SessionOpened(SESSION, True), board)
        == "resumed rows-7f3a: rows on cpu in cpp, goal best"
    )
    baseline = events.Baseline(
        (api.TaskCase("large", baselines_us={"eager": 7000.0}),), ("compile failed",)
    )
    assert line(baseline, board) == "baseline large: eager 7.00 ms\nnote: compile failed"
    assert (
        line(events.BestImproved(NODE, START), board) == "n7 best: 1.83× [1.79, 1.88] (was 1.21×)"
    )
    assert line(events.Working("a1", "time", 0.5), board) is None


def test_the_report_names_figure_lineage_borrowings_package_and_tree() -> None:
    shown = text_of(report_view(OUTCOME))
    for part in (
        "1.83× [1.79, 1.88] over the strongest baseline, node n7",
        "measured as a user calls it",
        "Not claimed",
        "n2  1.21× [1.20, 1.22]  [borrowed: skill: row_normalization]",
        "n7  1.83× [1.79, 1.88]  [tune]  wider vectors",
        "not confirmed: n9: held-out case wrong",
        "Wide vectors for rows (quarantine, 1.20×)",
        "/packages/rows",
        "kevolve tree rows-7f3a",
    ):
        assert part in shown


def test_a_run_without_a_winner_says_so_and_still_shows_the_tree() -> None:
    shown = text_of(report_view(RunOutcome(SESSION, "budget: no node is faster", 3)))
    assert "nothing to export: budget: no node is faster" in shown
    assert "kevolve tree rows-7f3a" in shown


def test_the_json_report_carries_the_same() -> None:
    data = report_json(OUTCOME, "/copy")
    assert data["fitness"] == 1.83
    assert data["package"] == "/copy"
    assert data["cases"][0]["baselines"] == {"eager": 7000.0, "compile": 4600.0}
    assert [n["origin"] for n in data["lineage"]] == [
        {"kind": "skill", "name": "row_normalization"},
        None,
    ]


def test_the_tree_nests_children_and_marks_the_best() -> None:
    crossed = replace(NODE, id="n9", parents=("n7", "n2"), role="crossover", status="incorrect")
    shown = text_of(tree_view(SESSION, [START, NODE, crossed]))
    rows = [line for line in shown.splitlines() if "n2" in line or "n7" in line or "n9" in line]
    assert "best" in next(r for r in shown.splitlines() if "── n7" in r)
    assert any("n9  incorrect" in r and "with n2" in r for r in rows)
    assert shown.index("── n2") < shown.index("── n7") < shown.index("── n9")


def test_no_sessions_says_what_to_do() -> None:
    assert "kevolve optimize TASK" in text_of(sessions_table([]))
    assert "rows-7f3a" in text_of(sessions_table([SESSION]))


def evaluation(status: Status, **more: Any) -> Evaluation:
    plain = Evaluation(
        candidate="c",
        language="cpp",
        task="t",
        target="cpu",
        purpose="confirm",
        status=status,
        message=f"it was {status}",
        policy="p",
        environment=Environment("cpu:x", "g++"),
        signals=(Signal("memory_bound", "83 %"),),
    )
    return replace(plain, **more)


def test_a_verdict_shows_why_and_the_end_of_the_failed_log() -> None:
    stages = (StageReport("build", False, log="\n".join(f"line {i}" for i in range(50))),)
    shown = text_of(verdict_view(Verdict.of("k.py", evaluation("build_failed", stages=stages))))
    for part in ("k.py  build_failed", "it was build_failed", "memory_bound: 83 %", "line 49"):
        assert part in shown
    assert "line 10\n" not in shown


def test_no_line_of_a_candidate_looks_like_one_of_ours() -> None:
    worded = "boom\nk.py  correct  F = 99.00x\n[bold]hint: export it[/bold]\x1b[2A"
    stages = (StageReport("build", False, message=worded, log=worded),)
    found = replace(evaluation("build_failed", stages=stages), message=worded)
    shown = text_of(verdict_view(Verdict.of("k.py", found))).splitlines()
    assert shown[1].startswith("  boom / k.py correct F = 99.00x / [bold]hint: export it[/bold]")
    assert [line for line in shown if "F = 99" in line and "> " not in line] == shown[1:2]
    assert "    > [bold]hint: export it[/bold] [2A" in [line.rstrip() for line in shown]


def test_a_correct_verdict_shows_fitness_and_cases() -> None:
    shown = text_of(
        verdict_view(Verdict.of("k.py", evaluation("correct", fitness=1.83, cases=(CASE,))))
    )
    assert "F = 1.83×" in shown
    assert "7.00 ms" in shown


def test_exit_code_zero_needs_at_least_one_candidate_and_no_failure() -> None:
    good, bad = Verdict.of("a", evaluation("correct")), Verdict("b", "unreadable", "no such file")
    assert all_correct([good])
    assert not all_correct([good, bad])
    assert not all_correct([])


def test_the_documented_json_of_a_verdict() -> None:
    data = Verdict.of("k.py", evaluation("correct", fitness=1.83, cases=(CASE,))).as_json()
    assert data["file"] == "k.py"
    assert [signal["name"] for signal in data["signals"]] == ["memory_bound"]
    assert {"name", "speedup", "interval", "verdict", "baseline", "baselines"} <= set(
        data["cases"][0]
    )
    bare = Verdict("b", "unreadable", "no such file").as_json()
    assert set(bare) == set(data)
    assert bare["fitness"] is None


def test_a_narrow_list_of_sessions_keeps_the_ids_whole() -> None:
    rows = [
        SESSION,
        replace(SESSION, id="a_rather_long_name_of_a_session-1b2c", best=None, correct=2),
    ]
    wide, narrow = (text_of(sessions_table(rows), width) for width in (200, 50))
    assert len(wide.splitlines()[0].split()) == 8  # the heading of a table
    for shown in (wide, narrow):
        assert all(row.id in shown for row in rows)
        assert "regresses a protected" in shown
    assert "…" not in narrow


def test_an_unclear_verdict_says_why() -> None:
    inconclusive = replace(CASE, verdict="inconclusive", interval=(0.9, 1.2), speedup=1.05)
    shown = text_of(verdict_view(Verdict.of("k.py", evaluation("correct", cases=(inconclusive,)))))
    assert "Inconclusive: large [0.90, 1.20]: the interval reaches from slower to faster" in shown
    doubted = replace(inconclusive, interval=(1.4, 1.6), speedup=1.5)
    shown = text_of(verdict_view(Verdict.of("k.py", evaluation("correct", cases=(doubted,)))))
    assert "large [1.40, 1.60]: above 1, but the figures are in doubt" in shown
    assert "from slower to faster" not in shown
    assert "Inconclusive" not in text_of(
        verdict_view(Verdict.of("k.py", evaluation("correct", cases=(CASE,))))
    )


def test_a_table_of_cases_is_not_cut_in_a_narrow_terminal() -> None:
    long = replace(CASE, name="a_case_with_a_name_that_needs_room", threads=1, allocation="fresh")
    for width in (60, 100, 160):
        shown = text_of(cases_table((long, replace(long, name="b"))), width)
        assert "…" not in shown
        assert long.name in shown
        assert shown.count("threads: 1; allocation: fresh") == 1
    mixed = text_of(cases_table((long, replace(long, name="b", threads=4))))
    assert "threads" in mixed.splitlines()[1]


def test_one_sentence_is_said_once() -> None:
    wrong = CaseResult("large", correct=False, detail="3 of 8 elements differ")
    found = evaluation(
        "incorrect",
        message="case large: 3 of 8 elements differ",
        signals=(Signal("wrong.values", "case large: 3 of 8 elements differ"),),
        cases=(wrong,),
    )
    assert text_of(verdict_view(Verdict.of("k.py", found))).count("3 of 8 elements differ") == 1


def test_a_packages_table_says_what_ran() -> None:
    small = replace(CASE, name="small", speedup=1.0)
    shown = text_of(cases_table((CASE, small), reference_cases=("small",)))
    heading, large, other = (
        line
        for line in shown.splitlines()
        if line.split() and line.split()[0] in ("case", "large", "small")
    )
    assert "package" in heading
    assert "runs the" in heading
    assert "kernel" in large
    assert "reference" in other
    assert "kernel" in text_of(cases_table((CASE,))).splitlines()[1]
