"""Texts are executed as an import would execute them."""

from __future__ import annotations

import sys

import pytest
import torch

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


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.int64]
)
def test_only_parameters_that_differ_are_written_where_some_change(dtype: torch.dtype) -> None:
    old = torch.arange(6, dtype=torch.float32).view(2, 3).to(dtype)
    targets = {"same": old.clone(), "other": old.clone()}
    values = [old.clone(), old.flip(0).clone()]
    modules.copy_state(targets, values, partly=True)
    assert [target._version for target in targets.values()] == [0, 1]
    assert torch.equal(targets["other"].view(torch.uint8), values[1].view(torch.uint8))
    modules.copy_state(targets, values)
    assert [target._version for target in targets.values()] == [1, 2]


def test_nan_is_written_again() -> None:
    target = torch.tensor([float("nan")])
    modules.copy_state({"only": target}, [target.clone()], partly=True)
    assert target._version == 1
