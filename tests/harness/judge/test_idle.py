"""Work that nobody waits for: what fails is told, unless the judge closes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.judge.errors import CancelToken
from harness.judge.idle import Idle


@pytest.mark.parametrize("closes", [False, True])
def test_a_step_that_fails_is_told_of_but_not_at_the_end(
    capsys: pytest.CaptureFixture[str], closes: bool
) -> None:
    idle = Idle()

    def steps(token: CancelToken) -> Iterator[None]:
        yield
        if closes:
            idle.close()
        raise RuntimeError("its worker is gone")

    idle.plan(steps, "a task")
    idle.run(lambda: False)
    assert ("its worker is gone" in capsys.readouterr().err) is not closes
