"""How a candidate's module is called in another thread."""

from __future__ import annotations

from typing import Any

import pytest

from harness.judge.evaluation import module_checks
from harness.judge.failures import Failure
from harness.types import Signal


def failure(name: str) -> Failure:
    return Failure("crashed", name, (Signal(name),))


ERROR, LATER, WRONG = (
    failure("crash.exception"),
    failure("out_of_memory"),
    failure("wrong.state"),
)


@pytest.mark.parametrize(
    ("plain", "copied", "raised", "manners"),
    [
        (None, None, None, ["in_a_thread"]),
        (ERROR, None, None, ["in_a_thread", "in_a_context"]),
        (ERROR, LATER, ERROR, ["in_a_thread", "in_a_context"]),
        (WRONG, None, WRONG, ["in_a_thread"]),
    ],
)
def test_only_an_error_in_a_plain_thread_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
    plain: Failure | None,
    copied: Failure | None,
    raised: Failure | None,
    manners: list[str],
) -> None:
    made: list[str] = []

    def call(check: Any, sets: Any, order: Any, doing: str, manner: str) -> None:
        made.append(manner)
        ends = {"in_a_thread": plain, "in_a_context": copied}[manner]
        if ends is not None:
            raise ends

    monkeypatch.setattr(module_checks, "_call_in_manner", call)
    check: Any = None
    try:
        module_checks._call_in_a_thread(check, [], [])
        found = None
    except Failure as error:
        found = error
    assert found is raised
    assert made == manners
