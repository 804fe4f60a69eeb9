"""Finds what this machine offers for a request: the device family of a target, the isolation level,
and the place where candidates run or are compiled."""

from __future__ import annotations

from ..languages import LANGUAGES
from ..targets import FAMILIES, DeviceFamily
from ..types import EvaluationRequest, IsolationLevel, Policy, Target, Task
from .device import target_reports
from .device.machine import Machine
from .failures import Unfit
from .processes.runtimes import Place

COMPILE_HINT = (
    "Kernels can be compiled for it. Float32 and float16 Triton kernels can be checked with target "
    "cpu, in Triton's interpreter; to measure, use a machine with that device."
)


class CapabilityMissing(Exception):
    """This machine lacks what the request needs."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def find_family(target: Target) -> DeviceFamily:
    """Return the device family that evaluates for a target. Raises CapabilityMissing with the
    reason."""
    family = FAMILIES.get(target.family)
    if family is None:
        raise CapabilityMissing(
            f"target {target} cannot be evaluated by this version",
            f"Targets: {', '.join(FAMILIES)}.",
        )
    if reason := family.missing():
        raise CapabilityMissing(f"target {target} is not available: {reason}", "Use target cpu.")
    if target.arch and not family.device_key().split(":sm_")[-1].startswith(
        target.arch.removeprefix("sm_")
    ):
        raise CapabilityMissing(
            f"target {target} is not this machine's device ({family.device_key()})",
            "Use that one.",
        )
    return family


def find_level(machine: Machine, language: str, policy: Policy) -> IsolationLevel:
    """Return the isolation level under which candidates run. Raises CapabilityMissing where the
    policy forbids it or the language is unknown."""
    if language not in LANGUAGES:
        raise CapabilityMissing(
            f"this evaluator has no language {language!r}",
            f"Languages here: {', '.join(LANGUAGES)}.",
        )
    level = machine.level
    if not policy.permits(level):
        raise CapabilityMissing(
            f"the policy requires isolation {policy.isolation!r}, this machine offers {level!r}",
            f"Levels here: {machine.isolation}. Allow a weaker one with "
            f"isolation={level}, or use another machine.",
        )
    return level


def find_place(
    machine: Machine, family: DeviceFamily, target: Target, task: Task, request: EvaluationRequest
) -> Place:
    """Return where to evaluate. Raises CapabilityMissing where the language does not work, and
    Unfit where a verdict would be misleading."""
    language = LANGUAGES[request.candidate.language]
    report = target_reports.find_report(target, language.name)
    if report is None or report.mode == "absent":
        working = ", ".join(
            f"{t.target}: {', '.join(t.languages)}" for t in machine.targets() if t.mode != "absent"
        )
        reason = f": {report.reason}" if report else ""
        raise CapabilityMissing(
            f"{language.name} kernels do not work on {target} here{reason}",
            f"What works here: {working}.",
        )
    dtypes = {spec.dtype for c in task.cases for spec in (*c.inputs, *c.outputs)}
    dtypes |= {p.partition("[")[0].split()[-1] for p in task.parameters}
    if reason := language.unfit(request.candidate.source, target, dtypes):
        raise Unfit(reason)
    return machine.place(family, target, language.name)


def find_compiler(machine: Machine, target: Target, language: str) -> Place:
    """Return where to compile for a target. Raises CapabilityMissing where the language cannot be
    compiled for it."""
    if machine.only_compiles(target) and target_reports.find_report(target, language) is None:
        languages = ", ".join(
            dict.fromkeys(
                n for t in machine.targets() if t.target == str(target) for n in t.languages
            )
        )
        raise CapabilityMissing(
            f"{language} cannot be compiled for {target} here",
            f"Languages for it here: {languages}.",
        )
    return machine.compiler(target, language)
