"""What tools print, taken as signals."""

from __future__ import annotations

import pytest

from harness.types import VOCABULARY
from knowledge import Library, signals_of
from knowledge.messages import vocabulary


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("kernel.o: undefined reference to `forward'", "compile_error.undefined_symbol"),
        ("ImportError: ./k.so: undefined symbol: _Z7forwardPf", "compile_error.undefined_symbol"),
        ("OutOfResources: out of resource: shared memory, Required: 200000, Hardware limit: 101376",
         "compile_error.resource_limit"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device",
         "compile_error.unsupported_instruction"),
        ("CUDA error: misaligned address", "crash.illegal_address"),
        ("k.cpp:3:10: fatal error: sleef.h: No such file or directory",
         "compile_error.missing_header"),
        ("k.cpp:9:5: error: 'foo' was not declared in this scope", "compile_error.undeclared_name"),
        ("k.cpp:9:5: error: expected ';' before 'return'", "compile_error.syntax"),
        ("Segmentation fault (core dumped)", "crash.segmentation_fault"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "out_of_memory"),
        ("/bin/sh: 1: nvcc: not found", "toolchain_missing"),
        ("ptxas info : 16 bytes stack frame, 12 bytes spill stores, 12 bytes spill loads",
         "register_spill"),
    ],
)  # fmt: skip
def test_a_message_stands_for_its_finding(text: str, signal: str) -> None:
    assert signals_of(text)[0] == signal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "how do I avoid spills",
        "no resources left for my project",
        "0 bytes of padding",
        "why is my kernel misaligned",
    ],
)
def test_other_text_stands_for_nothing(text: str) -> None:
    assert signals_of(text) == ()


def test_a_long_log_names_few_causes() -> None:
    log = (
        "undefined symbol: a\nSegmentation fault\nIllegal instruction\nstd::bad_alloc\n"
        "misaligned address"
    )
    assert signals_of(log) == (
        "compile_error.undefined_symbol",
        "crash.illegal_address",
        "crash.segmentation_fault",
    )


def test_every_signal_of_a_message_is_known_and_has_a_page(
    library: Library,
) -> None:
    assert vocabulary() <= set(VOCABULARY)
    assert vocabulary() <= {name for page in library.pages() for name in page.signals}


def test_a_pasted_message_finds_the_pages_of_its_finding(library: Library) -> None:
    found = library.search("CUDA error: misaligned address")
    assert any("signal crash.illegal_address" in hit.why for hit in found.hits)
    assert "no page matches these words well" not in found.note


def test_signals_that_are_given_stand_alone(library: Library) -> None:
    found = library.search("CUDA error: misaligned address", signals=["register_spill"], limit=50)
    assert not any("crash.illegal_address" in hit.why.partition("words:")[0] for hit in found.hits)
