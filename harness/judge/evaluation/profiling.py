"""The stages `profile` and `diagnose`: what did the work, what was built, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...targets import ARCHITECTURES
from ...types import Case, CaseResult, Signal, Target
from ..attribution import compiled_kernels, launched_kernels, loops, own_work
from ..failures import Failure
from ..figures import statistics
from ..outcomes import Outcome, Profiled, Timed, Verified
from ..stage_context import StageContext
from ..timing import causes
from . import diagnosis


def profile(context: StageContext, verified: Verified, timed: Timed) -> Profiled:
    """Find out what did the work, the static facts of what was built, and the counts from
    timing."""
    context.tell("profile", "who does the work", 0.95)
    work = whose_work(context, timed.results, verified.launches)
    if work.failure is not None:
        return Profiled(results=work.results, failure=work.failure)
    architecture = ARCHITECTURES.get(
        context.machine.architecture_of(Target.parse(context.place.target))
    )
    kernels: dict[str, Any] = loops_of(context, verified.called)
    static = list[Signal]()
    if verified.kernels and architecture is not None:
        launched = launched_kernels.join_listings(
            verified.kernels, context.builds.records, architecture
        )
        kernels, static = compiled_kernels.describe(launched, architecture)
    static += context.language.explain(kernels.get("static", {}))
    times = timed.times.items()
    data = {
        **kernels,
        "page_faults": {n: statistics.median(t.all("faults")) for n, t in times if t.blocks},
        "involuntary_switches": {n: sum(b.switches for b in t.blocks) for n, t in times},
    }
    return Profiled(data, work.signals, work.results, static=static)


def whose_work(context: StageContext, results: Mapping[str, CaseResult], launches: int) -> Outcome:
    """Return the results with the share of own kernels, and findings against the candidate, which
    fails if the policy refuses them. launches: those of its own kernels."""
    try:
        examination = own_work.examine(context, results, launches)
    except Failure as failure:
        return Outcome(results=results, failure=failure)
    if examination is None:
        return Outcome(results=results)
    results = {**results, examination.result.name: examination.result}
    try:
        own_work.refuse(context.request.policy, examination.signals)
    except Failure as failure:
        return Outcome(results=results, failure=failure)
    return Outcome(signals=examination.signals, results=results)


def loops_of(context: StageContext, called: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Return the analysis of what load_cpp built; {} for languages whose kernels run on a device,
    since host code does not describe them."""
    if not context.language.on_host:
        return {}
    return loops.describe(context.builds.analyses(), called)


def diagnose(context: StageContext, timed: Timed, profiled: Profiled) -> Outcome:
    """Find out what limits the kernel, and why."""
    results, pools = profiled.results, context.task.pools
    cases = [
        diagnosis.MeasuredCase(
            case, results[case.name], pools[case.name].working_set, _noise(case, timed, results)
        )
        for case in context.cases
        if case.name in results and not case.held_out
    ]
    briefly = any(s.name == "timed_briefly" for s in timed.signals)
    ceilings = context.machine.ceilings_of(context.task.family)
    signals = diagnosis.diagnose(cases, ceilings, profiled.static, briefly=briefly)
    return Outcome(signals=signals, results=results)


def _noise(case: Case, timed: Timed, results: Mapping[str, CaseResult]) -> str:
    times, baseline = timed.times.get(case.name), results[case.name].baseline
    return str(causes.explain(times, baseline)) if times is not None and baseline else ""
