"""README.md of a package: a pure function of what the package knows; its fixed words stand in
templates/README.md.txt."""

from __future__ import annotations

from importlib.resources import files as resources

from harness.types import CaseResult, Goal
from kevolve_mcp.api import Evaluation
from kevolve_mcp.search import dispatch, unmet_goals
from kevolve_mcp.synthesis.machine import device
from kevolve_mcp.synthesis.wording import said

from .dispatch import speedup_text
from .manifest import LineageStep, Manifest


def template(name: str) -> str:
    """The text of a file under templates/."""
    return (resources("kevolve_mcp.export") / "templates" / f"{name}.txt").read_text(
        encoding="utf-8"
    )


def package_readme(manifest: Manifest, evaluation: Evaluation, as_called: Evaluation | None) -> str:
    """Markdown. `as_called` is the evaluation of the package itself; only its figure is claimed."""
    return template("README.md").format(
        name=manifest.name,
        language=manifest.language,
        target=manifest.target,
        claim=_claim(evaluation, as_called) + _unmet_goals(manifest, evaluation, as_called),
        usage=_usage(manifest),
        training="" if manifest.gradients else _NO_GRADIENTS,
        operator=manifest.operator.replace("::", "."),
        gradients="gradients"
        if manifest.gradients
        else "without gradients, since the task asks for none",
        dispatch=_dispatch(as_called),
        rows="\n".join(_rows(manifest, evaluation, as_called)),
        naive=_naive(as_called or evaluation),
        kernel_cases=", ".join(manifest.kernel_cases) or "none",
        device=device(evaluation.device),
        toolchain=evaluation.toolchain,
        threads=max((case.threads for case in evaluation.cases), default=1),
        lineage=_lineage(manifest.lineage),
        session=f" of session {manifest.session}" if manifest.session else "",
        key=manifest.key[:16],
        isolation=evaluation.isolation,
        policy=evaluation.policy,
        approved=f" Approved by {manifest.approved_by}, {manifest.approved_at}."
        if manifest.approved_by
        else "",
    )


_NO_GRADIENTS = (
    "The kernel has no gradients: it is used under `torch.no_grad()` and `torch.inference_mode()`, "
    "or where nothing requires a\n"
    "gradient; in training the reference is.\n"
)


def _claim(evaluation: Evaluation, as_called: Evaluation | None) -> str:
    if as_called is None:
        return (
            "The package as a user calls it has not been measured yet, so nothing is claimed. The "
            "table shows the kernel alone."
        )
    if as_called.status != "correct":
        return (
            f"**The package failed its own evaluation ({as_called.status}): "
            f"{said(as_called.message)} Do not use it.**"
        )
    if as_called.fitness is None:
        return "The package was verified as a user calls it; it was not timed."
    alone = (
        f"; the kernel alone, before the export: {evaluation.fitness:.2f}x"
        if evaluation.fitness
        else ""
    )
    return (
        f"Measured as a user calls it, dispatch included: **{as_called.fitness:.2f}x** over the "
        f"strongest baseline of each case (weighted geometric mean{alone})."
    )


def _unmet_goals(manifest: Manifest, evaluation: Evaluation, as_called: Evaluation | None) -> str:
    if as_called is None or as_called.status != "correct" or as_called.fitness is None:
        return ""
    return "".join(
        f"\n\n**{text}**"
        for text in unmet_goals(
            Goal.parse(manifest.goal), as_called.cases, evaluation.cases, manifest.target
        )
    )


def _usage(manifest: Manifest) -> str:
    if manifest.form == "function":
        return "y = PACKAGE.functional(*inputs)"
    return (
        "model = PACKAGE.KernelModule(*init_args)  # takes the reference's state_dict\n"
        "y = model(*inputs)"
    )


def _rows(manifest: Manifest, evaluation: Evaluation, as_called: Evaluation | None) -> list[str]:
    called = {case.name: case for case in as_called.cases} if as_called else {}
    rows = []
    for case in evaluation.cases:
        label = (
            case.name
            + (" (held out)" if case.held_out else "")
            + (" (protected)" if case.protected else "")
        )
        cells = (
            label,
            manifest.case_inputs.get(case.name, "-"),
            "kernel" if case.name in manifest.kernel_cases else "reference",
            _as_called(called.get(case.name), case),
            _measured(case),
            f"{case.latency_us:.1f}" if case.latency_us is not None else "-",
            ", ".join(f"{name} {value:.1f}" for name, value in sorted(case.baselines.items()))
            or "-",
        )
        rows.append("| " + " | ".join(map(_cell, cells)) + " |")
    return rows


def _as_called(called: CaseResult | None, case: CaseResult) -> str:
    if called is not None and called.arguments != case.arguments:
        return "other shapes were drawn"
    return _measured(called) if called else "-"


def _measured(case: CaseResult) -> str:
    return f"{speedup_text(case)}, {case.verdict}" if case.verdict else speedup_text(case)


def _dispatch(as_called: Evaluation | None) -> str:
    overhead = dispatch(as_called.cases) if as_called else ""
    if not overhead:
        return ""
    return (
        f"Dispatch overhead, in microseconds per call with warm caches: {overhead} "
        "(measured with a kernel that does nothing;\n"
        "several times that with cold caches). `model.kernel_alone()` skips dispatch: use it for "
        "inputs of the measured kinds only, and dense gradients.\n\n"
    )


def _naive(evaluation: Evaluation) -> str:
    figures = [
        f"{c.name} {c.naive_speedup:.2f}x" for c in evaluation.cases if c.naive_speedup is not None
    ]
    if not figures:
        return ""
    return (
        "**Not claimed:** timed without equal allocation behaviour on both sides, the figures "
        f"would read {', '.join(figures)}.\n"
        "There one side pays page faults for fresh output memory that the other reuses; that "
        "difference is the allocator's, not\n"
        "the kernel's, and it vanishes in a process that reuses its memory. `python bench.py "
        "--naive` shows it.\n\n"
    )


def _lineage(lineage: tuple[LineageStep, ...]) -> str:
    if not lineage:
        return ""
    rows = [
        "## How it came about\n",
        "| node | from | hypothesis | status | F |",
        "|---|---|---|---|---|",
    ]
    for step in lineage:
        origin = f"**borrowed: {_cell(step.origin)}**" if step.origin else "search"
        fitness = "-" if step.fitness is None else f"{step.fitness:.2f}"
        rows.append(
            f"| {step.node} | {origin} | {_cell(step.hypothesis)} | {step.status} | {fitness} |"
        )
    return "\n".join(rows) + "\n\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
