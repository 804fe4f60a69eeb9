"""What a signal says of itself."""

from __future__ import annotations

from harness.types import KIND_OF, VOCABULARY, Signal


def test_every_name_of_the_vocabulary_has_one_kind() -> None:
    assert KIND_OF.keys() == VOCABULARY.keys()


def test_a_signal_says_its_kind() -> None:
    assert Signal("memory_bound").kind == "finding"
    assert Signal("policy.host_work").kind == "review"
    assert Signal("cheat.clock").kind == "integrity"
    assert Signal("throttled").kind == "environment"
