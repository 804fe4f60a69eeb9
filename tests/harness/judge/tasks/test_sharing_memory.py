"""What opening a task measures of a device whose memory the judge shares."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.judge.tasks import opening


def opened(monkeypatch: pytest.MonkeyPatch, reason: str, *, ready: bool) -> tuple[Any, int]:
    """The handle of a task, and how often a witness was made. reason: why no memory is shared.
    ready: whether the judge has a witness."""
    made: list[bool] = []
    monkeypatch.setattr(opening.device_link, "refusal", lambda worker: reason)
    monkeypatch.setattr(opening.device_witness, "is_ready", lambda: ready)
    monkeypatch.setattr(opening.device_witness, "prepare", lambda: made.append(True))
    family = SimpleNamespace(device_id=lambda: "of-a-test")
    handle: Any = SimpleNamespace(family=family, worker=None, notes=[], shared=False)
    opening.share_memory(handle, None)
    return handle, len(made)


@pytest.mark.parametrize(("ready", "made"), [(False, 1), (True, 0)])
def test_the_witness_is_made_while_there_is_no_candidate(
    monkeypatch: pytest.MonkeyPatch, ready: bool, made: int
) -> None:
    handle, times = opened(monkeypatch, "", ready=ready)
    assert handle.shared
    assert not handle.notes
    assert times == made


def test_no_witness_is_made_where_memory_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    handle, times = opened(monkeypatch, "an old driver", ready=False)
    assert not handle.shared
    assert "an old driver" in handle.notes[0]
    assert not times
