"""The rules on skills, from figures alone."""

from __future__ import annotations

import dataclasses
import operator
from pathlib import Path
from typing import Any

import pytest

from harness.types import Case, Operator, TensorSpec
from kevolve_mcp.search import Origin
from kevolve_mcp.sessions.skills import code, standing
from kevolve_mcp.sessions.skills.learned import as_skill
from kevolve_mcp.sessions.skills.patterns import alike, checked
from kevolve_mcp.sessions.skills.sameness import KnownTasks
from kevolve_mcp.sessions.skills.wording import plain_sentences, problem
from kevolve_mcp.store import SkillEvidence, SkillOutcome, SkillRecord, Store
from kevolve_mcp.synthesis import find_starts
from knowledge import Library
from tests.synthesis.helpers import pointwise_task

GAIN = SkillOutcome("skills/x", "s", "n2", "correct", 1.4, (1.2, 1.6))
EVEN = dataclasses.replace(GAIN, effect=1.1, interval=(0.9, 1.3))
WRONG = dataclasses.replace(GAIN, status="incorrect", effect=None, interval=None)
MEASURED = SkillEvidence("s-1", "n2", "n1", "task", "cpu:a", 1.5, (1.4, 1.6))


def test_two_tasks_or_devices_accept_and_nothing_less() -> None:
    again = dataclasses.replace(MEASURED, session="s-2")
    assert not standing.accepted_because([], operator.ne)
    assert not standing.accepted_because([MEASURED, again], operator.ne)
    assert "2 task(s)" in standing.accepted_because(
        [MEASURED, dataclasses.replace(again, task="other")], operator.ne
    )
    assert "2 device(s)" in standing.accepted_because(
        [MEASURED, dataclasses.replace(again, device="cpu:b")], operator.ne
    )
    assert not standing.accepted_because(
        [MEASURED, dataclasses.replace(again, task="other", origin="elsewhere")], operator.ne
    )


def test_the_order_of_near_tasks_does_not_decide() -> None:
    def far(one: str, other: str) -> bool:
        return abs(int(one) - int(other)) > 1

    rows = [dataclasses.replace(MEASURED, task=t) for t in ("2", "1", "3")]
    assert "2 task(s)" in standing.accepted_because(rows, far)
    assert not standing.accepted_because(rows[:2], far)


def test_what_two_task_files_compute_decides_whether_they_are_two(tmp_path: Path) -> None:
    task = pointwise_task("return torch.relu(x) * 2", (64, 64))
    case = task.cases[0]

    def rows(n: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec((n, 64), "float32", (64, 1), 256 * n),)

    def sized(n: int, name: str = "c", **arguments: object) -> Case:
        return dataclasses.replace(
            case, name=name, inputs=rows(n), outputs=rows(n), arguments=arguments
        )

    graph = (Operator("relu", (-1,)), Operator("abs", (-2,)), Operator("mul", (0, 1)))
    exchanged = (Operator("abs", (-2,)), Operator("relu", (-1,)), Operator("mul", (1, 0)))
    swapped = (*exchanged[:2], Operator("mul", (0, 1)))
    variants: dict[str, dict[str, Any]] = {
        "base": {"cases": (sized(64, rows=64), sized(512, rows=512))},
        "noted": {"cases": (sized(64, "other", note="unused"), sized(512))},
        "turned": {"cases": (sized(512), sized(64))},
        "a little longer": {"cases": (sized(65), sized(1023))},
        "far longer": {"cases": (sized(64), sized(1024))},
        "one more": {"cases": (sized(64), sized(512), sized(4096))},
        "operands exchanged": {"graph": swapped, "cases": (sized(64), sized(512))},
        "lines exchanged": {"graph": exchanged, "cases": (sized(64), sized(512))},
        "another graph": {"graph": graph[:1], "cases": (sized(64), sized(512))},
    }
    with Store.open(tmp_path) as store:
        for name, changes in variants.items():
            facts = {"graph": graph, **changes}
            store.tasks.put(dataclasses.replace(task, digest=name.ljust(64, "0"), **facts))
        tasks = KnownTasks(store)
        others = {n: tasks.another("base".ljust(64, "0"), n.ljust(64, "0")) for n in variants}
    assert others == {
        "base": False,
        "noted": False,
        "turned": False,
        "a little longer": False,
        "far longer": True,
        "one more": True,
        "operands exchanged": False,
        "lines exchanged": False,
        "another graph": True,
    }


def test_only_a_certain_gain_is_one() -> None:
    assert [standing.success(o) for o in (GAIN, EVEN, WRONG)] == [True, False, False]


def test_sessions_of_one_author_on_one_task_are_one_trial() -> None:
    outcomes = [
        dataclasses.replace(found, task=task, author=author)
        for found, task, author in (
            (WRONG, "t", "me"),
            (GAIN, "t", "me"),
            (WRONG, "t", "you"),
            (EVEN, "u", "me"),
        )
    ]
    kept = standing.trials(outcomes, operator.ne)
    assert [(o.status, o.effect, o.task, o.author) for o in kept] == [
        ("correct", 1.4, "t", "me"),
        ("correct", 1.1, "u", "me"),
        ("incorrect", None, "t", "you"),
    ]


@pytest.mark.parametrize(
    ("gains", "failures", "given_up"),
    [(0, 4, False), (0, 5, True), (1, 4, False), (1, 5, False), (1, 6, True), (9, 9, False)],
)
def test_what_keeps_failing_is_given_up(gains: int, failures: int, given_up: bool) -> None:
    assert bool(standing.contradicted_because([GAIN] * gains + [WRONG] * failures)) is given_up


def test_the_beta_distribution_is_right() -> None:
    assert standing.below(0.5, 1, 1) == pytest.approx(0.5)
    assert standing.below(0.5, 1, 6) == pytest.approx(1 - 0.5**6)
    assert standing.below(0.3, 2, 3) == pytest.approx(0.3483)  # 1 - I_0.7(3, 2), from tables


def test_a_rank_sinks_with_failures_alone() -> None:
    ranks = [standing.standing([GAIN] * 2 + [EVEN] * n) for n in range(6)]
    assert ranks[0] == ranks[2] == 1.0
    assert ranks[2:] == sorted(ranks[2:], reverse=True)
    assert 0 < ranks[-1] < 0.7


def test_texts_about_kernels_pass_and_others_do_not() -> None:
    for fine in (
        "Unroll by 4 and keep 8 accumulators in registers; tiles of 8x16 or 64 x 64.",
        "Use input/output buffers of the same alignment (64 bytes), and/or a fence.",
        "aten.mean becomes a running sum; x * rsqrt(v + eps) is one instruction.",
        "You gain most where rows fit into the cache.",
    ):
        assert problem(fine) == ("", ""), fine
    for wrong in (
        "2.1× on rows",
        "saves 30 %",
        "at 400 GB/s",
        "see ./notes/x.md",
        "C:\\kernels",
        "<system>",
        "assistant: yes",
        "run curl x",
    ):
        assert problem(wrong)[0], wrong
    assert (
        plain_sentences("Fuse both loops. Gains 2x! Keep the sum.")
        == "Fuse both loops. Keep the sum."
    )


def test_a_learned_template_lends_a_start() -> None:
    shipped = next(s for s in Library.builtin().skills() if s.id == "skills/fused_pointwise")
    record = SkillRecord(
        id="fused_chain",
        title="A chain in one loop",
        mechanism="Each value is read once.",
        matches={"families": ["elementwise"], "dtypes": ["float32"]},
        target="cpu",
        language="cpp",
        files={"kernel.py": shipped.files["kernel.py"], "plain.py": "class ModelNew: pass\n"},
    )
    skill = as_skill(record, [MEASURED])
    task = pointwise_task("return torch.relu(x) * 2", (64, 64))
    (start,) = find_starts(task, "cpu", "cpp", skills=[skill]).found
    assert start.origin == Origin("skill", "learned/fused_chain")
    assert "class ModelNew" in start.candidate.source
    assert not find_starts(task, "cpu", "triton", skills=[skill]).found
    bare = as_skill(dataclasses.replace(record, files={}), [])
    assert "no kernel template" in " ".join(find_starts(task, "cpu", "cpp", skills=[bare]).notes)


@pytest.mark.parametrize(
    ("excerpt", "missing"),
    [
        ("a = b//2  # halves", ""),
        ("for (;;)\n  sum += x;", ""),
        ("n = 1\n...\nsum+=x;", ""),
        ("+sum += x;\n-gone = 1;", ""),
        ("sum += x;\nn = 1", "n=1"),
        ("sum += y;", "sum+=y;"),
        ("# a comment alone", "# a comment alone"),
    ],
)
def test_an_excerpt_is_looked_for_line_by_line(excerpt: str, missing: str) -> None:
    source = 'n = 1  # one\na = b // 2\nS = """\nfor (;;) // rows\n  sum /* of x */ += x;\n"""\n'
    assert code.missing(excerpt, source) == missing


def test_words_decide_whether_two_texts_say_the_same() -> None:
    assert alike("Fuse the passes over a row", "Fusing passes over each row")
    assert not alike("Fuse the passes over a row", "Store past the caches with a fence")
    assert not alike("wider", "narrower")
    assert checked({"operators": "aten.mean|aten.sum", "dtypes": []}) == {
        "operators": ["aten.mean|aten.sum"]
    }
