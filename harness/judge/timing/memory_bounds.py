"""What a candidate's memory says of it: compared with the strongest baseline's, and with the limit
of the policy. Pure."""

from __future__ import annotations

from ...types import CaseResult, Policy, Signal
from ..failures import Failure
from ..figures.case_times import USUAL_BYTES

TIMES_BASELINE = 2.0  # and more than processes of equal kernels differ by


def beyond_baseline(result: CaseResult) -> list[Signal]:
    """Where it holds far more: one signal at most."""
    parts = [
        f"{_gib(own)} of {where} memory where {result.baseline} holds {_gib(baseline)}"
        for where, own, baseline in _peaks(result)
        if baseline is not None and own > max(TIMES_BASELINE * baseline, baseline + USUAL_BYTES)
    ]
    if not parts:
        return []
    evidence = {
        "host_peak_bytes": float(result.host_peak_bytes or 0),
        "device_peak_bytes": float(result.device_peak_bytes or 0),
    }
    text = f"case {result.name}: it holds {', and '.join(parts)}"
    return [Signal("memory.beyond_baseline", text, evidence)]


def over_limit(result: CaseResult, policy: Policy) -> Failure | None:
    """Where it holds more than the policy allows."""
    if policy.memory_gib is None:
        return None
    for where, own, _ in _peaks(result):
        if own > policy.memory_gib * 2**30:
            text = (
                f"case {result.name}: it holds {_gib(own)} of {where} memory, more than the "
                f"{policy.memory_gib:g} GiB that are allowed"
            )
            signal = Signal("memory.over_limit", text, {f"{where}_peak_bytes": float(own)})
            return Failure("invalid", text, (signal,))
    return None


def _peaks(result: CaseResult) -> list[tuple[str, int, int | None]]:
    """(which memory, the candidate's bytes, the baseline's), of those that are known."""
    host = ("host", result.host_peak_bytes, result.baseline_host_peak_bytes)
    device = ("device", result.device_peak_bytes, result.baseline_device_peak_bytes)
    return [(where, own, other) for where, own, other in (host, device) if own is not None]


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
