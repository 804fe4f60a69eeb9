"""Texts are executed as an import would execute them."""

from __future__ import annotations

import sys

import pytest

from harness.workers import modules


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python itself postpones annotations")
def test_annotations_are_evaluated_as_an_import_does() -> None:
    with pytest.raises(NameError, match="Tensor"):
        modules.load("def kernel(x: Tensor): return x\n", "annotated", "annotated.py")
    text = "from __future__ import annotations\ndef kernel(x: Tensor): return x\n"
    assert modules.load(text, "postponed", "postponed.py").kernel(1) == 1


def test_a_declared_encoding_is_obeyed_as_an_import_does() -> None:
    text = "\r# coding: raw_unicode_escape\n# \\u000aNOTED = True\n"
    assert modules.load(text, "noted", "noted.py").NOTED
