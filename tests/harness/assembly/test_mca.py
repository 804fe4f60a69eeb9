"""What llvm-mca prints, taken apart: recorded output of two versions, and text that nobody
expects."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.assembly import Body, Inside, inspect

RECORDED = Path(__file__).parents[2] / "data" / "mca"
SKYLAKE, ZEN = "llvm-19-skylake-avx512.txt", "llvm-16-znver3.txt"
SOURCE = "\n" * 10
VERSION = "Debian LLVM version {}\n  Optimized build.\n  Host CPU: {}\n"
CHAIN = "a chain of dependencies from one iteration to the next"
OWN = "a table of our own: "
Look = Callable[..., Inside]


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    """Look into a library with these words of llvm-mca, where the disassembler prints the recorded
    listing. Programs of their names stand in for both."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")

    def program(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    def looked(
        said: str, version: str = VERSION.format("19.1.7", "skylake-avx512"), *, end: str = "exit 0"
    ) -> Inside:
        (folder / "said").write_text(said)
        (folder / "version").write_text(version)
        program(
            "llvm-mca",
            f'if [ "$1" = --version ]; then exec cat {folder}/version; fi\n'
            f'echo "$@" > {folder}/options\ncat > {folder}/asked\ncat {folder}/said\n{end}',
        )
        program("objdump", f"exec cat {RECORDED}/listing.txt")
        return inspect("lib.so", SOURCE, "kernel.cpp", ["add"])

    return looked


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def loops(found: Inside) -> dict[str, Body]:
    return {name: function.bodies[0] for name, function in found.functions.items()}


def test_each_loop_has_its_cycles_and_what_holds_it_up(look: Look) -> None:
    found = look(recorded(SKYLAKE))
    assert found.note == ""
    body = loops(found)
    assert {name: (b.cycles, b.limit) for name, b in body.items()} == {
        "add": (1.47, "the instructions that can be issued"),
        "sum": (4.08, CHAIN),
        "fill": (2.03, "port SKXPort4"),
    }
    assert {b.by for b in body.values()} == {"llvm-mca 19.1.7, skylake-avx512"}
    # ports without work ("-") are left out
    assert body["fill"].pressure == {
        "SKXPort0": 0.75,
        "SKXPort1": 0.75,
        "SKXPort2": 0.66,
        "SKXPort3": 0.67,
        "SKXPort4": 2.0,
        "SKXPort5": 0.75,
        "SKXPort6": 0.75,
        "SKXPort7": 0.67,
    }


def test_another_version_and_processor_is_read_alike(look: Look) -> None:
    body = loops(look(recorded(ZEN), VERSION.format("16.0.6", "znver3")))
    assert {name: (b.cycles, b.limit) for name, b in body.items()} == {
        "add": (1.6, "port Zn3FPP45"),
        "sum": (3.1, CHAIN),
        "fill": (2.03, "port Zn3FPSt"),
    }
    assert body["add"].by == "llvm-mca 16.0.6, znver3"


def test_of_several_units_of_one_name_the_busiest_counts(look: Look) -> None:
    """[16.0] and [16.1] are both Zn3Store."""
    even = " 0.66   0.67   0.67   0.50   0.50   "
    assert recorded(ZEN).count(even) == 1
    for first, second in (("0.75", "0.25"), ("1.00", " -  ")):
        uneven = recorded(ZEN).replace(even, f" 0.66   0.67   0.67   {first}   {second}   ")
        assert loops(look(uneven))["add"].pressure["Zn3Store"] == float(first)


def test_what_is_handed_in_is_one_region_for_each_loop(look: Look, tmp_path: Path) -> None:
    look(recorded(SKYLAKE))
    asked = (tmp_path / "bin" / "asked").read_text()
    assert asked.count("# LLVM-MCA-BEGIN") == asked.count("# LLVM-MCA-END") == 3
    assert "\tvaddps (%rdi,%rax,4),%ymm0,%ymm0\n" in asked
    # a branch goes to a label, not to an address
    assert asked.count("\tjne .Lout\n") == 3
    options = (tmp_path / "bin" / "options").read_text().split()
    assert {"-mcpu=native", "-iterations=100"} <= set(options)


UNEXPECTED = {
    "nothing": ("", "llvm-mca did not answer for every loop"),
    "another language": ("Warteschlange: 7\n" * 50, "llvm-mca did not answer for every loop"),
    "a region too few": (
        recorded(SKYLAKE).partition("[2] Code Region - 2")[0],
        "llvm-mca did not answer for every loop",
    ),
    "no table of ports": (
        recorded(SKYLAKE).replace("Resource pressure per iteration:", "Pressure:"),
        "the output of llvm-mca cannot be parsed",
    ),
    "no cycles": (
        recorded(SKYLAKE).replace("Total Cycles:", "Cycles in all:"),
        "the output of llvm-mca cannot be parsed",
    ),
    "no throughput": (
        recorded(SKYLAKE).replace("Block RThroughput:", "Throughput:"),
        "the output of llvm-mca cannot be parsed",
    ),
    "no iterations": (
        recorded(SKYLAKE).replace("Iterations:        100", "Iterations:        0"),
        "the output of llvm-mca cannot be parsed",
    ),
    "a number that is none": (
        recorded(SKYLAKE).replace("Total Cycles:      408", "Total Cycles:      4.0.8"),
        "the output of llvm-mca cannot be parsed",
    ),
}


@pytest.mark.parametrize("case", UNEXPECTED)
def test_unexpected_words_leave_the_estimate_to_the_table(look: Look, case: str) -> None:
    said, why = UNEXPECTED[case]
    found = look(said)
    assert found.note == why
    for body in loops(found).values():
        assert body.cycles is not None
        assert body.by.startswith(OWN)


def test_an_error_of_llvm_mca_is_quoted(look: Look) -> None:
    error = "<stdin>:3:2: error: found an unsupported instruction in the input assembly sequence."
    found = look("", end=f'echo "warning: x" >&2\necho "{error}" >&2\nexit 1')
    assert found.note == f"llvm-mca failed: {error}"
    note = "note: instruction: \tvaddps\t%zmm0, %zmm1"
    found = look("", end=f'echo "error: unsupported" >&2\necho "{note}" >&2\nexit 1')
    assert found.note == "llvm-mca failed: error: unsupported (vaddps %zmm0, %zmm1)"
    assert look("", end="exit 3").note == "llvm-mca failed: without a message"
    assert loops(found)["add"].by.startswith(OWN)


def test_odd_ports_and_an_unknown_version_are_no_reason_to_fail(look: Look) -> None:
    """Ports without a name keep their number; a cell that is no number counts as no work."""
    said = recorded(SKYLAKE).replace("[6]   - SKXPort4\n", "").replace(" 2.00 ", " n/a  ")
    body = loops(look(said, "who knows"))
    assert body["add"].pressure["6"] == 1.0
    assert "6" not in body["fill"].pressure
    assert body["add"].by == "llvm-mca , this processor"
