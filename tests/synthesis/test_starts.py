"""Where a search starts."""

from __future__ import annotations

from harness.types import Candidate
from kevolve_mcp.search.provenance import USER_FILE
from kevolve_mcp.synthesis import SimilarStart, find_starts
from knowledge import Library

from .helpers import TUNABLE, pointwise_task, rmsnorm_task

SKILLS = Library.builtin().skills()
USER = Candidate(TUNABLE, "cpp")


def test_user_file_then_skills_then_similar_tasks() -> None:
    other = SimilarStart("older", Candidate(TUNABLE + "# older\n", "cpp"), 1.7)
    starts = find_starts(rmsnorm_task(), "cpu", "cpp", user=USER, skills=SKILLS, similar=(other,))
    assert [str(s.origin) for s in starts.found] == [
        "user file",
        "skill: row_normalization",
        "task: older",
    ]
    assert "1.70" in starts.found[2].note
    assert any("softmax_cross_entropy" in note for note in starts.notes)


def test_equal_texts_once_and_other_languages_left_out() -> None:
    same, triton = SimilarStart("older", USER), SimilarStart("gpu", Candidate("x", "triton"))
    assert (
        len(
            find_starts(
                pointwise_task("return x", (8,)), "cpu", "cpp", user=USER, similar=(same, triton)
            ).found
        )
        == 1
    )


def test_nothing_found_says_what_to_do() -> None:
    starts = find_starts(
        pointwise_task("return torch.cumsum(x, 0)", (8, 8)), "cpu", "cpp", skills=SKILLS
    )
    assert starts.found == ()
    assert "give one" in starts.notes[-1]


def test_skills_of_other_languages_and_targets_are_not_mentioned() -> None:
    task = pointwise_task("return torch.cumsum(x, 0)", (8, 8))
    for target, language in (("cpu", "cpp"), ("cuda:sm_90", "triton")):
        notes = find_starts(task, target, language, skills=SKILLS).notes
        assert any(note.startswith("skill ") for note in notes), language
        assert not [n for n in notes if "it is written in" in n or "it is for" in n]


def test_the_limit_is_announced() -> None:
    similar = tuple(SimilarStart(f"t{i}", Candidate(f"x = {i}", "cpp")) for i in range(9))
    starts = find_starts(rmsnorm_task(), "cpu", "cpp", similar=similar, limit=4)
    assert len(starts.found) == 4
    assert "5 further" in starts.notes[-1]


def test_a_start_is_tried_with_the_best_parameters_of_a_similar_task() -> None:
    best = USER.with_params({"UNROLL": 8, "WIDTH": 512, "PASSES": 1})
    other_form = SimilarStart(
        "else", Candidate("TUNABLES = {'X': [1]}\nPARAMS = {'X': 1}\n", "cpp")
    )
    older = SimilarStart(
        "ol\nder", Candidate(best.source + "# other text\n", "cpp"), 1.7, "older-7f3a n4"
    )
    found = find_starts(
        pointwise_task("return x", (8,)), "cpu", "cpp", user=USER, similar=(other_form, older)
    ).found
    assert found[0].candidate == best
    assert found[0].origin == USER_FILE
    assert "best for the similar task ol der" in found[0].note
    assert found[1].candidate == USER
    assert "older-7f3a n4" in found[3].note
    own = SimilarStart("same", Candidate(USER.source + "# other text\n", "cpp"))
    assert (
        find_starts(pointwise_task("return x", (8,)), "cpu", "cpp", user=USER, similar=(own,))
        .found[0]
        .candidate
        == USER
    )


def test_a_skill_begins_with_winning_parameters_and_leaves_its_own() -> None:
    plain = find_starts(rmsnorm_task(), "cpu", "cpp", skills=SKILLS).found
    won = {**plain[0].candidate.params(), "UNROLL": 1}
    older = SimilarStart(
        "older",
        Candidate(plain[0].candidate.with_params(won).source + "# bound to another task\n", "cpp"),
        2.0,
    )
    found = find_starts(
        rmsnorm_task(), "cpu", "cpp", user=USER, skills=SKILLS, similar=(older,)
    ).found
    assert [str(s.origin) for s in found] == [
        "skill: row_normalization",
        "user file",
        "task: older",
    ]
    assert found[0].candidate == plain[0].candidate.with_params(won)
