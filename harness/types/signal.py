"""The closed vocabulary of findings. Each signal points to knowledge pages and to the next step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

SignalKind = Literal["finding", "review", "integrity", "environment"]

VOCABULARY: dict[str, str] = {
    # policy and structure
    "structure.no_entry_point": "the file defines neither class ModelNew nor kernel(*inputs)",
    "structure.syntax_error": "the file is not valid Python",
    "structure.constructor_mismatch": "ModelNew cannot be constructed with the task's arguments",
    ("structure.parameter_mismatch"): (
        "the module's parameters do not match the reference's by name or by position"
    ),
    "policy.library_calls": "the framework computes what the candidate's own kernel should",
    "policy.no_native_kernel": "no kernel of the session's language was built or launched",
    "policy.decoy_kernel": "the candidate's kernels ran, but its outputs are right without them",
    "policy.host_work": (
        "most of a call is computed neither by the candidate's kernels nor by the framework"
    ),
    # build
    "compile_error": "the compiler refused the source",
    "compile_error.undeclared_name": "a name is used that nothing declares",
    "compile_error.missing_header": "an included file does not exist in the build sandbox",
    "compile_error.type_mismatch": "types do not convert or no overload fits",
    "compile_error.syntax": "the compiler could not parse the source",
    ("compile_error.undefined_symbol"): (
        'a function is declared or called but not defined, or not extern "C"'
    ),
    ("compile_error.unsupported_instruction"): (
        "an intrinsic needs an instruction set that the flags or the machine lack"
    ),
    "compile_error.shape_mismatch": "tensor or block shapes do not agree",
    "compile_error.resource_limit": "more registers, shared memory or time than the compiler has",
    "toolchain_missing": "the compiler or runtime that the language needs is not installed",
    # running
    "crash.segmentation_fault": "the process was ended by an invalid memory access",
    "crash.abort": "the process aborted (assertion, heap corruption, uncaught C++ exception)",
    "crash.exception": "the candidate raised a Python exception",
    "crash.illegal_instruction": "the code used an instruction that this processor lacks",
    "crash.exit": (
        "the process ended before answering: it exited, or was killed although memory sufficed"
    ),
    "crash.arithmetic": (
        "the process was ended by an arithmetic fault such as an integer division by zero"
    ),
    "crash.input_mutation": "the candidate wrote to an input (inputs are read-only)",
    "crash.out_of_bounds": "memory before or after a tensor was read or written",
    "crash.illegal_address": "the device reported an invalid address",
    "out_of_memory": (
        "an allocation exceeded the memory limit, or the process was killed for the memory it held"
    ),
    "output_flood": "more was printed than the log holds",
    "timeout.build": "the build did not end in time",
    "timeout.run": "a call did not end in time",
    # wrong results
    "wrong.shape": "an output's shape differs from the reference's",
    "wrong.dtype": "an output's dtype differs from the reference's",
    "wrong.structure": "the outputs differ in number or kind",
    "wrong.values": "values differ by more than rounding explains",
    "wrong.non_finite": "NaN or infinity where the reference is finite",
    "wrong.precision": "the error is that of rounding to a lower precision than the task's",
    "wrong.tail": "the last part of an axis is wrong",
    "wrong.rows": "some rows are wrong, others right",
    "wrong.strided": "every k-th row, column or element is wrong",
    "wrong.block": "one contiguous block or range is wrong",
    "wrong.boundary": "only the first or last index of an axis is wrong",
    "wrong.uninitialized": "parts of the output were never written",
    "wrong.not_bitwise": "the task asks for bitwise equality and some bits differ",
    "wrong.stale_parameters": "right with the first parameters, wrong after they changed",
    "wrong.race": "the same input gave different results beyond rounding",
    "wrong.held_output": "an output changed after it was returned",
    "wrong.state": "after a call, parameters or buffers differ from the reference's",
    "wrong.gradients": "the forward results agree, the gradients do not",
    "special_values": (
        "with NaN or infinity in the inputs the result differs from the reference's; no candidate "
        "fails because of it"
    ),
    # honesty
    "cheat.clock": "the candidate's own clock disagrees with the judge's (on a device)",
    "cheat.impossible_speed": "faster than the device can write the outputs",
    "cheat.protocol": "the candidate interfered with the evaluation protocol",
    "clock_open": "faster by the figure, but by less than the uncertainty of the judge's clock",
    "output_predictable": (
        "a number known beforehand, or what half of the inputs give, would pass as an output, or "
        "it hardly shows one of the inputs or products, so no speed-up can be certified"
    ),
    "suspect.implausible_speed": "a speed-up that is rarely true; a person should look",
    # why it is slow (or fast enough)
    "memory_bound": "the time is explained by bytes moved at the measured bandwidth",
    "compute_bound": "the time is explained by operations at the measured rate",
    "latency_bound": "neither bytes nor operations explain the time",
    "launch_bound": "the call overhead dominates",
    "waits_for_device": "a call waits for the device before all of its work is launched",
    "near_roofline": "within reach of the measured ceiling",
    "allocation_bound": "page faults of fresh output memory take a large part of the time",
    "not_vectorized": "the hot loops use scalar instructions",
    "partly_vectorized": "scalar and packed floating-point instructions are mixed",
    "narrow_vectors": "only 128-bit vectors, although the code uses AVX",
    "register_spill": "values are spilled to memory",
    "low_occupancy": "few threads are resident per multiprocessor",
    "gather_heavy": "indexed loads dominate",
    "division_heavy": "divisions and square roots are a large part of the arithmetic",
    "transcendental_heavy": "calls to exp, log, tanh … in the hot loop",
    "page_faults": "the call touches fresh pages each time",
    "memory.beyond_baseline": "it holds far more memory than the strongest baseline",
    "memory.over_limit": "it holds more memory than the policy allows",
    "timed_briefly": (
        "behind the best so far, so it was timed in only one or two pairs of processes"
    ),
    "noisy_timing": "the samples scatter too much for a narrow interval",
    "foreign_process": "other programs used the device while it was timed",
    "throttled": "heat, a power limit or a clock change slowed the device down during timing",
    "slower_than_baseline": "slower than the strongest baseline in at least one case",
    "protected_regression": "a protected case is slower than its baseline",
    "improved": "faster than its parent",
    "regressed": "slower than its parent",
}

KIND_OF: dict[str, SignalKind] = {
    **dict.fromkeys(VOCABULARY, "finding"),
    "policy.library_calls": "review",
    "policy.no_native_kernel": "review",
    "policy.decoy_kernel": "review",
    "policy.host_work": "review",
    "suspect.implausible_speed": "review",
    "cheat.clock": "integrity",
    "cheat.impossible_speed": "integrity",
    "cheat.protocol": "integrity",
    "toolchain_missing": "environment",
    "noisy_timing": "environment",
    "foreign_process": "environment",
    "throttled": "environment",
}


@dataclass(frozen=True)
class Signal:
    """One finding about a candidate, or about the measurement of it."""

    name: str
    """From VOCABULARY."""
    message: str = ""
    """One sentence with the numbers."""
    evidence: dict[str, float] = field(default_factory=dict)
    """The numbers by name."""

    def __post_init__(self) -> None:
        if self.name not in VOCABULARY:
            raise ValueError(
                f"unknown signal {self.name!r}; the vocabulary is in harness/types/signal.py"
            )

    @property
    def kind(self) -> SignalKind:
        """What a reader has to do about it.

        "finding": about the candidate itself. "review": a person decides whether it may win.
        "integrity": the figures cannot be believed. "environment": about the machine, not the
        candidate.
        """
        return KIND_OF[self.name]
