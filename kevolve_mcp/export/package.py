"""Writing the winner as a package."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.types import PROTOCOL_VERSION, Candidate, Evaluation, Goal, Policy, Task, to_json
from kevolve_mcp import __version__, api
from kevolve_mcp.errors import Conflict, UsageError
from kevolve_mcp.synthesis.wording import said

from .dispatch import Decision, decide, dispatch_data, torch_device
from .files import json_text, sha256, write_folder
from .manifest import ExportResult, LineageStep, Manifest
from .readme import package_readme, template
from .sources import identifier, importable, native_sources, packaged, task_form

BEST = Goal()
GLUE = (
    "__init__.py",
    "calls.py",
    "modules.py",
    "arguments.py",
    "updates.py",
    "dispatch.py",
    "threads.py",
    "streams.py",
    "quick.py",
    "instance.py",
    "unchanged.py",
    "binding.py",
    "between.py",
    "later.py",
    "gradients.py",
    "op.py",
    "face.py",
    "bench.py",
    "test_kernel.py",
)


def export_package(
    folder: Path | str,
    *,
    task: Task,
    candidate: Candidate,
    evaluation: Evaluation,
    lineage: Sequence[LineageStep] = (),
    session: str = "",
    policy: Policy | None = None,
    approved_by: str = "",
    approved_at: str = "",
    goal: Goal = BEST,
) -> ExportResult:
    """Write the winner as a Python package that needs torch and nothing of KEvolve.

    folder: where; its last part becomes an importable name ("rmsnorm-7f3a" -> "rmsnorm_7f3a"), with
    a number appended if taken; the path that was used is in the result. task.cases: all cases of
    the evaluation, held-out ones included; the dispatch table knows only these. The folder appears
    complete or not at all. goal: of the session; the README says where the package misses it.
    approved_by, approved_at: who looked at it and when; a kernel that needs a review needs it, and
    a policy with `review`. Raises UsageError (evaluation of something else, not correct), Conflict
    (a review is required), StoreError (disk).
    """
    _check(task, candidate, evaluation, policy or Policy(), approved_by)
    decisions = decide(task, evaluation)
    approval = (approved_by, approved_at)
    texts, manifest = _compose(
        task,
        candidate,
        evaluation,
        decisions,
        tuple(lineage),
        session,
        policy or Policy(),
        approval,
        goal,
    )
    destination = Path(folder).expanduser().absolute()
    path = write_folder(destination.with_name(importable(destination.name)), texts)
    return ExportResult(path, tuple(sorted(texts)), manifest)


def _check(
    task: Task, candidate: Candidate, evaluation: Evaluation, policy: Policy, approved_by: str
) -> None:
    if evaluation.candidate != candidate.digest or evaluation.task != task.digest:
        raise UsageError(
            "the evaluation is of another candidate or task",
            "pass the evaluation of exactly this candidate and task",
        )
    if evaluation.status != "correct" and not (evaluation.status == "needs_review" and approved_by):
        raise UsageError(
            f"only a correct kernel can be exported; this one is {evaluation.status}: "
            f"{said(evaluation.message)}",
            "choose another node; one that needs a review can be exported once a person approved "
            "it",
        )
    if policy.review and not approved_by:
        raise Conflict(
            "the session's policy asks for a review before an export",
            "pass approved_by with the name of who approved it",
        )


def _compose(
    task: Task,
    candidate: Candidate,
    evaluation: Evaluation,
    decisions: tuple[Decision, ...],
    lineage: tuple[LineageStep, ...],
    session: str,
    policy: Policy,
    approval: tuple[str, str],
    goal: Goal,
) -> tuple[dict[str, str], Manifest]:
    name, shown = identifier(task.name), api.evaluation(evaluation, record=True)
    stamp = hashlib.sha256(f"{task.digest}\0{candidate.digest}".encode()).hexdigest()[:8]
    operator, device = f"kevolve_{name}::{name}_{stamp}", torch_device(evaluation.target)
    kernel, edits = packaged(candidate.source)
    texts = {
        **{file: template(file.replace("__init__", "init")) for file in GLUE},
        "kernel.py": kernel,
        **native_sources(),
        "reference.py": task.source,
        "dispatch.json": json_text(
            dispatch_data(decisions, operator=operator, device=device, gradients=task.gradients)
        ),
        "measurements.json": json_text(
            {
                "session": session,
                "policy": to_json(policy),
                "evaluation": to_json(shown),
                "as_called": None,
            }
        ),
    }
    manifest = Manifest(
        name=task.name,
        operator=operator,
        task=task.digest,
        candidate=candidate.digest,
        key=evaluation.key,
        language=candidate.language,
        target=evaluation.target,
        device=device,
        form=task_form(task.source),
        gradients=task.gradients,
        session=session,
        approved_by=approval[0],
        approved_at=approval[1],
        kernel_cases=tuple(d.case.name for d in decisions if d.use == "kernel"),
        reference_cases=tuple(d.case.name for d in decisions if d.use == "reference"),
        case_inputs={d.case.name: ", ".join(map(str, d.case.inputs)) for d in decisions},
        lineage=lineage,
        edits=edits,
        versions={
            "kevolve": __version__,
            "protocol": str(PROTOCOL_VERSION),
            "toolchain": evaluation.environment.toolchain,
        },
        files={},
        goal=str(goal),
    )
    texts["README.md"] = package_readme(manifest, shown, None)
    manifest = replace(manifest, files={file: sha256(text) for file, text in sorted(texts.items())})
    texts["manifest.json"] = json_text(to_json(manifest))
    return texts, manifest
