"""An exported package as one self-contained candidate, so that the evaluator measures what a user
calls, and recording that figure in the package."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from harness.types import Candidate, Evaluation, to_json
from kevolve_mcp import api
from kevolve_mcp.errors import UsageError

from .files import json_text, replace_file, sha256
from .manifest import ExportResult, Package
from .reading import read_package
from .readme import package_readme, template
from .sources import identifier

# in the order in which they need each other; packages of earlier versions have fewer
_PARTS = (
    "reference.py",
    "kernel.py",
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
)
_MODULE = '''

class ModelNew(_package.KernelModule):
    """The package's module{note}."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
{body}'''
_FUNCTION = '''

def kernel(*inputs):
    """The package's function."""
    return _package.functional(*inputs)


kernel.without_kernel = _package.KernelModule().without_kernel
'''


def package_candidate(folder: Path | str) -> Candidate:
    """The package's files embedded as text, with a ModelNew (or kernel) that calls through its
    face, dispatch and operator.

    The text is the same for the same package, wherever it lies. native/ is not embedded:
    `harness.native`, of which it is a copy, stands in for it, so that builds go through the
    evaluator's build service. Evaluate it under a policy with library_calls="allow": cases in which
    the kernel does not win go to the reference, by design. Without GRADIENTS the parameters are
    frozen, which is how a user gets the kernel. Raises NotFound and Conflict as `read_package`
    does.
    """
    package = read_package(folder)
    text = template("candidate.py")
    embedded = [name for name in ("__init__.py", *_PARTS, "dispatch.json") if name in package.texts]
    listed = "\n".join(f"    {name!r}: {package.texts[name]!r}," for name in embedded)
    values = {
        "@NAME@": identifier(package.manifest.name),
        "@MODULE@": _module_name(package),
        "@FILES@": listed,
    }
    for mark, value in values.items():
        text = text.replace(mark, value, 1)
    return Candidate(text + _face(package), package.manifest.language)


def _module_name(package: Package) -> str:
    return f"kevolve_export_{identifier(package.manifest.name)}_{package.manifest.operator[-8:]}"


def _face(package: Package) -> str:
    if package.manifest.form == "function":
        return _FUNCTION
    frozen = "" if package.manifest.gradients else "        self.requires_grad_(False)\n"
    return _MODULE.format(
        note="" if frozen == "" else ", frozen: the kernel has no gradients", body=frozen
    )


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
