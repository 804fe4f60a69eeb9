"""Turns a candidate's failure into status, message and signals. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from ..languages import LANGUAGES, Language
from ..types import Signal, Status
from ..workers import memory_faults
from .correctness.oracle import Finding
from .errors import Interfered, WorkerDied, WorkerFailed, WorkerTimeout
from .processes.builds import BuildRecord


@dataclass(eq=False)
class Failure(Exception):
    """The failure that ends an evaluation."""

    status: Status
    message: str
    signals: tuple[Signal, ...]
    log: str = ""
    wrong: tuple[str, Finding] | None = None
    """The case whose output was wrong, and the finding."""


class Unfit(Exception):
    """A verdict on this machine would be meaningless; the message says why. Nothing is known about
    the candidate."""


_KINDS: dict[str, tuple[Status, str]] = {
    "no_entry_point": ("invalid", "structure.no_entry_point"),
    "syntax_error": ("invalid", "structure.syntax_error"),
    "constructor": ("invalid", "structure.constructor_mismatch"),
    "parameter_mismatch": ("invalid", "structure.parameter_mismatch"),
    "library_call": ("invalid", "policy.library_calls"),
    "structure": ("incorrect", "wrong.structure"),
    "shape": ("incorrect", "wrong.shape"),
    "dtype": ("incorrect", "wrong.dtype"),
    "out_of_memory": ("crashed", "out_of_memory"),
    "exception": ("crashed", "crash.exception"),
    "native": ("crashed", "crash.exception"),
    "compile": ("build_failed", "compile_error"),
    "out_of_bounds": ("crashed", "crash.out_of_bounds"),
    "input_mutation": ("crashed", "crash.input_mutation"),
}
_DEVICE_FAULT = re.compile(
    r"illegal memory access|misaligned address|shared address space|device-side assert|unspecified "
    r"launch failure|"
    r"illegal instruction was encountered|invalid program counter|cudaErrorIllegalAddress"
)  # CUDA's messages after a kernel has broken the context
_WRITTEN_INPUT = re.compile(r"write to byte \d+ inside input \d")
_BESIDE = re.compile(r"memory \d+ bytes (before|after)")
QUOTED_CHARS = 200  # of the reply about a failed build, by which the resulting error is recognised
READ_CHARS = 16_000  # of a compiler's output that are searched for known messages
NEARLY = 0.8  # share of the memory limit above which the limit explains a worker's end
_DEATHS = {
    signal.SIGSEGV: (
        "crash.segmentation_fault",
        (
            "an invalid memory access (an index past the end, or a write to an input: inputs are "
            "read-only)"
        ),
    ),
    signal.SIGBUS: (
        "crash.segmentation_fault",
        "a bus error (memory beyond the end of a mapping, or none left in /tmp)",
    ),
    signal.SIGABRT: (
        "crash.abort",
        (
            "abort (an assertion, heap corruption, an uncaught C++ exception, or an allocation "
            "beyond the memory limit)"
        ),
    ),
    signal.SIGILL: (
        "crash.illegal_instruction",
        "an instruction that this processor does not have",
    ),
    signal.SIGFPE: ("crash.arithmetic", "an arithmetic fault, such as an integer division by zero"),
    signal.SIGKILL: (
        "crash.exit",
        "SIGKILL, sent by itself or one of its processes; the system was not short of memory",
    ),
    signal.SIGXFSZ: ("output_flood", "writing a file beyond the limit"),
}


def explain(
    error: Exception,
    where: str,
    log: str,
    flooded: bool,
    builds: Sequence[BuildRecord],
    language: Language,
) -> Failure:
    """Explain an error. where: what the candidate was doing, for the message."""
    if isinstance(error, WorkerFailed) and (failed := _reason(str(error), builds)) is not None:
        return _build_failure(failed)
    if flooded:
        text = f"{where}: it printed more than the log holds (256 KiB)"
        return Failure("crashed", text, (Signal("output_flood", text),), log)
    if isinstance(error, WorkerFailed) and error.kind == "unfit":
        raise Unfit(str(error)) from error
    if isinstance(error, WorkerFailed) and error.kind == "compile":
        return compile_failure(str(error), log, language)
    if isinstance(error, WorkerFailed):
        status, name = _KINDS.get(error.kind, ("crashed", "crash.exception"))
        text = str(error).strip() or error.kind
        if error.kind in ("exception", "native") and _DEVICE_FAULT.search(text):
            name = "crash.illegal_address"
        first = text.splitlines()[0][:300]
        return Failure(status, f"{where}: {text[:2000]}", (Signal(name, first),), log)
    if isinstance(error, WorkerTimeout):
        text = f"{where}: {str(error) or 'no answer before the deadline'}; the process was killed"
        return Failure("timed_out", text, (Signal("timeout.run", text),), log)
    if isinstance(error, Interfered):
        text = f"{where}: {error}"
        return Failure("reward_hack", text, (Signal("cheat.protocol", text),), log)
    if isinstance(error, WorkerDied):
        return _death(error, where, log)
    raise error


def _reason(text: str, builds: Sequence[BuildRecord]) -> BuildRecord | None:
    """Return the failed build that an error is about: the error quotes the reply about it. A build
    failure that the candidate caught does not explain later errors."""
    return next(
        (b for b in builds if not b.ok and b.reply and b.reply[:QUOTED_CHARS].strip() in text), None
    )


def compile_failure(text: str, log: str, language: Language) -> Failure:
    """Return the failure of a candidate that a compiler inside the worker refused. text: the error.
    log: what was printed before, perhaps the reason."""
    signals = _with_general(language.read_log(_shorten(f"{log}\n{text}" if log else text)))
    return Failure("build_failed", signals[0].message, signals, f"{text}\n{log}".strip())


def _shorten(text: str) -> str:
    """Keep both ends of a long text. The candidate controls the text, and searching it can take
    quadratic time."""
    return (
        text
        if len(text) <= READ_CHARS
        else f"{text[: READ_CHARS // 4]}\n{text[-3 * READ_CHARS // 4 :]}"
    )


def _with_general(signals: tuple[Signal, ...]) -> tuple[Signal, ...]:
    """Add `compile_error` itself, by which a reader finds every failed build."""
    return (
        signals
        if any(s.name == "compile_error" for s in signals)
        else (*signals, Signal("compile_error", signals[0].message))
    )


def _build_failure(record: BuildRecord) -> Failure:
    if record.timed_out:
        return Failure(
            "build_failed", record.log, (Signal("timeout.build", record.log),), record.log
        )
    if record.refused:
        return Failure(
            "build_failed", record.log, (Signal("compile_error", record.log),), record.log
        )
    if record.missing:
        return Failure(
            "build_failed", record.log, (Signal("toolchain_missing", record.log),), record.log
        )
    signals = _with_general(LANGUAGES[record.language].read_log(_shorten(record.log)))
    return Failure("build_failed", signals[0].message, signals, record.log)


def _death(error: WorkerDied, where: str, log: str) -> Failure:
    if error.signal_number is None:
        text = f"{where}: the process ended by itself with exit code {error.exit_code}"
        return Failure("crashed", text, (Signal("crash.exit", text),), log)
    default = ("crash.abort", f"signal {error.signal_number}")
    name, words = (
        _DEATHS.get(signal.Signals(error.signal_number), default)
        if error.signal_number in set(signal.Signals)
        else default
    )
    if shortage := _shortage(error, log):
        name, words = "out_of_memory", f"signal {error.signal_number}: {shortage}"
    text = f"{where}: the process was ended by {words}"
    signals: tuple[Signal, ...] = (Signal(name, text),)
    if name == "crash.segmentation_fault" and (fault := memory_faults.explanation(log)):
        text = f"{where}: the process was ended by an invalid memory access: {fault}"
        named = (
            "crash.input_mutation"
            if _WRITTEN_INPUT.match(fault)
            else "crash.out_of_bounds"
            if _BESIDE.search(fault)
            else ""
        )
        signals = (Signal(name, text), *([Signal(named, text)] if named else []))
    return Failure("crashed", text, signals, log)


def _shortage(error: WorkerDied, log: str) -> str:
    """Return the evidence that a worker ended for lack of memory, "" where there is none."""
    if error.held_bytes:
        return f"it and its processes held {error.held_bytes / 2**30:.1f} GiB, more than the limit"
    if error.limit and error.peak > NEARLY * error.limit:
        return (
            f"it held {error.peak / 2**30:.1f} of the {error.limit / 2**30:.1f} GiB that it may map"
        )
    if "bad_alloc" in log:
        return "it printed std::bad_alloc"
    if error.signal_number == signal.SIGKILL and error.starved:
        return "the system ran out of memory meanwhile and killed a process"
    return ""
