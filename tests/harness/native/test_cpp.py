"""Libraries in C++ that are loaded into a program of somebody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.native import find_compiler, load_cpp

SCRIPT = """
import sys
from harness.native import load_cpp

tiny = float.fromhex("0x1p-1060")
lib = load_cpp('extern "C" double half(double x) { return x / 2; }', flags=sys.argv[1:])
assert lib.half(1.0) == 0.5
assert tiny * 1.0 > 0.0
"""


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler on this machine")
@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast", "-funsafe-math-optimizations"])
def test_loading_keeps_numbers_below_the_smallest_normal_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flag: str
) -> None:
    monkeypatch.setenv("KEVOLVE_NATIVE_CACHE", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, flag], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler on this machine")
def test_static_variables_of_templates_belong_to_one_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KEVOLVE_NATIVE_CACHE", str(tmp_path))
    source = """
    template <int K> struct Table { static double value; };
    template <int K> double Table<K>::value = VALUE;
    extern "C" double value() { return Table<1>::value; }
    """
    libraries = [load_cpp(source, defines={"VALUE": float(n)}) for n in (1, 2)]
    assert [library.value() for library in libraries] == [1.0, 2.0]


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler on this machine")
def test_another_compiler_builds_again(tmp_path: Path) -> None:
    calls, compiler = tmp_path / "calls", tmp_path / "g++"
    environment = {
        **os.environ,
        "CXX": str(compiler),
        "KEVOLVE_NATIVE_CACHE": str(tmp_path / "cache"),
    }
    builds = []
    for text in ("first", "first", "second one"):
        script = f'#!/bin/sh\n# {text}\necho >> {calls}\nexec {find_compiler()} "$@"\n'
        if not compiler.exists() or compiler.read_text() != script:
            compiler.write_text(script)
            compiler.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        builds.append(calls.read_text().count("\n"))
    assert builds == [1, 1, 2]
