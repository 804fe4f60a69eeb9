"""The conformance tests of languages: inherit `LanguageConformance`, fill in the two methods, and
pytest runs the rest."""

from __future__ import annotations

from ..types import VOCABULARY, Target
from .base import Language

_FAMILIES = ("cpu", "cuda", "hip")


class LanguageConformance:
    """Tests that every language must pass. A subclass gives the language and a candidate that is
    fit for its first target."""

    def language(self) -> Language:
        raise AssertionError("a subclass returns its language here")

    def candidate(self) -> str:
        raise AssertionError("a subclass returns a candidate's text here")

    def test_it_has_a_name_and_targets(self) -> None:
        language = self.language()
        assert language.name.isidentifier()
        assert language.targets
        assert all(Target.parse(t).family in _FAMILIES for t in language.targets)

    def test_a_good_text_is_not_rejected(self) -> None:
        assert self.language().police(self.candidate()) is None

    def test_a_text_that_cannot_work_is_rejected_with_a_place_or_a_fix(self) -> None:
        broken = self.language().police(self.candidate() + "\ndef f(:\n")
        assert broken is not None
        assert broken.name == "structure.syntax_error"
        assert "line" in broken.message
        empty = self.language().police("x = 1\n")
        assert empty is not None
        assert empty.name == "structure.no_entry_point"
        assert "ModelNew" in empty.message

    def test_a_good_text_is_fit_for_its_first_target(self) -> None:
        language = self.language()
        assert (
            language.unfit(
                self.candidate(), Target.parse(language.targets[0]), ("float32", "int64")
            )
            == ""
        )

    def test_text_that_is_no_python_raises_nothing(self) -> None:
        language = self.language()
        for target in language.targets:
            assert isinstance(language.unfit("def f(:\n\0", Target.parse(target), ()), str)

    def test_any_log_becomes_signals_of_the_vocabulary(self) -> None:
        for log in (
            "",
            "\n\n",
            "no error is named here",
            "kernel.x:3:7: error: something",
            "\0\x1b[31m" + "e" * 10_000,
        ):
            signals = self.language().read_log(log)
            assert signals
            assert all(s.name in VOCABULARY and s.name.startswith("compile_error") for s in signals)
            assert all(s.message and len(s.message) <= 20_000 for s in signals)

    def test_no_facts_explain_nothing(self) -> None:
        assert self.language().explain({}) == ()

    def test_it_is_stateless(self) -> None:
        language = self.language()
        log = "kernel.x:3:7: error: something"
        assert language.read_log(log) == language.read_log(log)
        assert language.police(self.candidate()) == language.police(self.candidate())
