"""Inspection of a library that was just built, with the tools of this machine. Runs in the build
sandbox."""

from __future__ import annotations

import functools
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace

from . import mca
from .inside import Inside
from .reading import read

DISASSEMBLERS = ("objdump", "llvm-objdump")
MISSING = (
    "neither objdump (Debian: apt-get install binutils) nor llvm-objdump is installed, so the code "
    "cannot be analysed"
)
SECONDS = 20.0
LISTING_BYTES = 16 << 20


def inspect(library: str, source: str, file: str, exported: Sequence[str]) -> Inside:
    """Disassemble and analyse a library. library: its path; source lines are known if it was built
    with line tables (-g1). file: the name under which the source was compiled."""
    name = next((n for n in DISASSEMBLERS if shutil.which(n)), "")
    program = shutil.which(name)
    if not program:
        return Inside(note=MISSING)
    options = ["--inlines"] if name == "objdump" else []
    command = [program, "-d", "-l", "--no-show-raw-insn", "--section=.text", *options, library]
    try:
        process = subprocess.run(
            command, capture_output=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Inside(note=f"{name} did not answer: {type(error).__name__}")
    estimator = mca.find()
    listing = process.stdout[:LISTING_BYTES].decode(errors="replace")
    contents = read(
        listing,
        source,
        file,
        platform.machine(),
        exported,
        functools.partial(mca.estimates, estimator) if estimator else None,
    )
    return replace(contents, disassembler=_version(program))


def _version(program: str) -> str:
    process = subprocess.run(
        [program, "--version"],
        capture_output=True,
        timeout=SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return next(
        (
            line.strip()
            for line in process.stdout.decode(errors="replace").splitlines()
            if line.strip()
        ),
        program,
    )[:80]
