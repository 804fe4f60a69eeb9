"""The candidate's import is moved and moved back; everything else of its text stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kevolve_mcp.errors import UsageError
from kevolve_mcp.export.sources import identifier, importable, packaged, task_form, unpackaged

IMPORTS = {
    "from harness.native import load_cpp": "from .native import load_cpp",
    ("from  harness.native import (\n    load_cpp,\n    Library as L,\n)"): (
        "from  .native import (\n    load_cpp,\n    Library as L,\n)"
    ),
    "import harness.native as hn": "from . import native as hn",
    "from harness import native": "from . import native",
    "from harness import native as n": "from . import native as n",
}


@pytest.mark.parametrize(("before", "after"), IMPORTS.items())
def test_each_form_of_the_import(before: str, after: str) -> None:
    source = f'"""Ünïcode: from harness.native import load_cpp"""\nS = "→"; {before}\nX = 1\n'
    text, edits = packaged(source)
    assert text == source.replace(f"; {before}", f"; {after}")
    assert unpackaged(text, edits) == source


def test_the_bare_import_keeps_its_name() -> None:
    text, edits = packaged("import harness.native\nlib = harness.native.load_cpp")
    assert "harness.native.load_cpp" in text
    assert "import harness" not in text
    assert unpackaged(text, edits).startswith("import harness.native\n")


@given(
    st.lists(
        st.sampled_from(
            [
                *IMPORTS,
                "x = 'ä'",
                "import torch",
                "def f():\n    from harness.native import load_cpp",
            ]
        ),
        max_size=6,
    )
)
def test_the_edits_undo_themselves(lines: list[str]) -> None:
    source = "\n".join(lines)
    text, edits = packaged(source)
    assert unpackaged(text, edits) == source
    compile(text, "kernel.py", "exec")


@pytest.mark.parametrize(
    "line",
    [
        "from harness.judge.correctness import oracle",
        "import kevolve_mcp",
        "from harness import *",
        "import os, harness.native",
    ],
)
def test_other_imports_of_ours_are_refused(line: str) -> None:
    with pytest.raises(UsageError, match="line 2"):
        packaged(f"import torch\n{line}\n")


@pytest.mark.parametrize("path", ["harness.native", "harness", "kevolve_mcp.export"])
def test_a_module_of_ours_by_its_path_is_refused(path: str) -> None:
    call = f'importlib.import_module("{path}")'
    text = f"import importlib\ntry:\n    n = {call}\nexcept ImportError:\n    n = None"
    with pytest.raises(UsageError, match=r"line 3: the text .* does not bring"):
        packaged(text)
    packaged(
        '"""A harness. Of knowledge.native"""\nX = "knowledge", "wiring harness", "harness.cpp!"'
    )


def test_text_that_is_not_the_packaged_one_is_refused() -> None:
    _, edits = packaged("from harness.native import load_cpp")
    with pytest.raises(UsageError, match="does not match"):
        unpackaged("from .other import load_cpp", edits)


def test_names() -> None:
    assert identifier("RMS-Norm 2") == "rms_norm_2"
    assert identifier("2fast") == "k_2fast"
    assert identifier("→") == "kernel"
    assert identifier("class") == "k_class"
    assert importable("Kept_1") == "Kept_1"


def test_forms_of_tasks() -> None:
    assert task_form("class Model: ...") == "module"
    assert task_form("def reference(x): ...") == "function"
    with pytest.raises(UsageError, match="neither"):
        task_form("x = 1")
