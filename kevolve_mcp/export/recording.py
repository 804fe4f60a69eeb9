"""Recording what a package achieves as a user calls it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from harness.types import Evaluation, to_json
from kevolve_mcp import api
from kevolve_mcp.errors import UsageError

from .candidate import package_candidate
from .files import json_text, replace_file, sha256
from .manifest import ExportResult
from .reading import read_package
from .readme import package_readme


def record_evaluation(folder: Path | str, evaluation: Evaluation) -> ExportResult:
    """Record the evaluation of `package_candidate(folder)`: the package as a user calls it, the
    figure that may be claimed.

    Rewrites measurements.json, README.md and manifest.json; code and dispatch table stay as they
    were evaluated. Raises UsageError when the evaluation belongs to something else, NotFound and
    Conflict as `read_package` does.
    """
    package = read_package(folder)
    if (
        evaluation.candidate != package_candidate(folder).digest
        or evaluation.task != package.manifest.task
    ):
        raise UsageError(
            "this evaluation is not of the package's candidate under the package's task",
            "evaluate package_candidate(folder) under the task of the session",
        )
    shown = api.evaluation(evaluation, record=True)
    measurements = json.loads(package.texts["measurements.json"]) | {"as_called": to_json(shown)}
    rewritten = {
        "measurements.json": json_text(measurements),
        "README.md": package_readme(package.manifest, package.evaluation, shown),
    }
    manifest = replace(
        package.manifest,
        files=package.manifest.files | {name: sha256(text) for name, text in rewritten.items()},
    )
    for name, text in {**rewritten, "manifest.json": json_text(to_json(manifest))}.items():
        replace_file(package.path / name, text)
    return ExportResult(package.path, tuple(sorted({*package.texts, "manifest.json"})), manifest)
