"""What stands in a package, and that a changed one is found out."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness.types import Policy, Signal
from kevolve_mcp import api
from kevolve_mcp.errors import Conflict, NotFound, StoreError, UsageError
from kevolve_mcp.export import (
    ExportResult,
    LineageStep,
    export_package,
    package_candidate,
    read_package,
    record_evaluation,
)
from kevolve_mcp.export.dispatch import decide

from . import samples

Packages = dict[str, ExportResult]


def export(folder: Path, one: samples.Sample, **options: object) -> ExportResult:
    return export_package(
        folder, task=one.task, candidate=one.candidate, evaluation=one.evaluation, **options
    )  # type: ignore[arg-type]


@pytest.fixture
def copy(packages: Packages, tmp_path: Path) -> Path:
    return Path(shutil.copytree(packages["scale_norm"].path, tmp_path / "scale_norm"))


def test_files_and_manifest_agree(packages: Packages) -> None:
    for result in packages.values():
        assert {p.relative_to(result.path).as_posix() for p in result.path.rglob("*.*")} >= set(
            result.files
        )
        for name, digest in result.manifest.files.items():
            assert hashlib.sha256((result.path / name).read_bytes()).hexdigest() == digest
        for required in (
            "kernel.py",
            "native/__init__.py",
            "native/cuda.py",
            "reference.py",
            "op.py",
            "dispatch.json",
            "bench.py",
            "test_kernel.py",
            "README.md",
        ):
            assert required in result.files


def test_a_package_reads_back_as_what_was_exported(packages: Packages) -> None:
    for make in (samples.scale_norm, samples.min_max, samples.mixed, samples.double_it):
        one = make()
        package = read_package(packages[make.__name__].path)
        assert package.candidate == one.candidate
        assert package.task_source == one.task.source
        assert package.evaluation == api.evaluation(one.evaluation, record=True)
        assert package.as_called is None
        assert package.manifest == packages[make.__name__].manifest


def test_kernel_is_the_evaluated_text_with_its_import_moved(packages: Packages) -> None:
    kernel = (packages["scale_norm"].path / "kernel.py").read_text()
    assert kernel == samples.scale_norm().candidate.source.replace(
        "from harness.native import", "from .native import"
    )


def test_only_faster_cases_go_to_the_kernel(packages: Packages) -> None:
    result = packages["scale_norm"]
    assert result.manifest.kernel_cases == ("small", "tall", "hidden")
    assert result.manifest.reference_cases == ("wide",)
    data = json.loads((result.path / "dispatch.json").read_text())
    assert {c["name"]: c["use"] for c in data["cases"]} == {
        "small": "kernel",
        "wide": "reference",
        "tall": "kernel",
        "hidden": "kernel",
    }


def test_untimed_and_unmeasured_cases_go_to_the_reference(tmp_path: Path) -> None:
    one = samples.scale_norm()
    small, *rest = one.evaluation.cases
    partial = replace(
        one.evaluation, cases=(replace(small, speedup=None, verdict=None, interval=None), *rest[:2])
    )
    result = export(tmp_path / "p", replace(one, evaluation=partial))
    why = {
        c["name"]: c["why"]
        for c in json.loads((result.path / "dispatch.json").read_text())["cases"]
    }
    assert result.manifest.kernel_cases == ("tall",)
    assert why["small"] == "verified, not timed"
    assert why["hidden"] == "not verified in this evaluation"


def test_readme_tells_borrowed_from_found_and_claims_nothing_naive(packages: Packages) -> None:
    text = (packages["scale_norm"].path / "README.md").read_text()
    assert "**borrowed: skill: row_normalization**" in text
    assert "wider \\| loads" in text
    assert "Not claimed" in text
    assert "small 15.00x" in text
    assert "nothing is claimed" in text
    assert "float32[4, 32]" in text


def test_a_kernel_that_loses_to_compile_is_used_over_a_slower_fallback() -> None:
    one = samples.scale_norm()
    cases = tuple(
        replace(
            c,
            verdict="slower",
            speedup=0.9,
            interval=(0.85, 0.95),
            baseline="compile",
            baselines={"eager": eager, "compile": 9.0},
            latency_us=10.0,
        )
        for c, eager in zip(one.evaluation.cases, (30.0, 10.1, 30.0, 30.0), strict=True)
    )
    decided = decide(one.task, replace(one.evaluation, cases=cases))
    assert [d.use for d in decided] == ["kernel", "reference", "kernel", "kernel"]
    assert "3.00x over the reference" in decided[0].why


def test_a_kernel_above_the_reference_is_used_though_inconclusive() -> None:
    one = samples.scale_norm()
    lows = (1.3, 0.9, 1.3, 1.3)
    cases = tuple(
        replace(
            c,
            verdict="inconclusive",
            speedup=1.6,
            interval=(low, 1.8),
            baseline="eager",
            baselines={"eager": 16.0},
            latency_us=10.0,
        )
        for c, low in zip(one.evaluation.cases, lows, strict=True)
    )
    assert [d.use for d in decide(one.task, replace(one.evaluation, cases=cases))] == [
        "kernel",
        "reference",
        "kernel",
        "kernel",
    ]


def test_held_out_shapes_are_those_that_the_evaluation_drew() -> None:
    """Given as ranges they are others each time: the ones that the task's opening drew are not
    vouched for."""
    one = samples.scale_norm()
    *shown, hidden = one.evaluation.cases
    drawn = replace(hidden, arguments={"rows": 7, "hidden": 48})
    *_, found = decide(one.task, replace(one.evaluation, cases=(*shown, drawn)))
    assert (found.use, found.case.arguments) == ("kernel", {"rows": 7, "hidden": 48})
    assert found.case.inputs == ()
    # of an evaluation that did not say what it drew
    *_, found = decide(
        one.task, replace(one.evaluation, cases=(*shown, replace(hidden, arguments={})))
    )
    assert found.use == "reference"


def test_figures_of_other_shapes_do_not_stand_beside_those_of_the_kernel(copy: Path) -> None:
    one = samples.scale_norm()
    verdicts = {"small": "faster", "wide": "equivalent", "tall": "faster", "hidden": "faster"}
    called = samples.evaluation_of(one.task, package_candidate(copy), verdicts, purpose="export")
    *shown, hidden = called.cases
    other = replace(hidden, arguments={"rows": 8, "hidden": 40})
    record_evaluation(copy, replace(called, cases=(*shown, other)))
    (row,) = (
        r for r in (copy / "README.md").read_text().splitlines() if "| hidden (held out)" in r
    )
    assert "other shapes were drawn" in row


def test_the_claim_comes_from_the_package_as_called(copy: Path) -> None:
    one = samples.scale_norm()
    verdicts = {"small": "faster", "wide": "equivalent", "tall": "faster", "hidden": "faster"}
    called = samples.evaluation_of(
        one.task, package_candidate(copy), verdicts, purpose="export", fitness=1.42
    )
    result = record_evaluation(copy, called)
    assert "**1.42x** over the strongest baseline" in (copy / "README.md").read_text()
    package = read_package(copy)
    assert package.as_called == api.evaluation(called, record=True)
    assert package.manifest == result.manifest
    assert package_candidate(copy).digest == called.candidate, (
        "recording does not change what was evaluated"
    )
    failed = replace(
        called,
        status="incorrect",
        message="wrong in case small",
        signals=(Signal("wrong.values"),),
        fitness=0.0,
    )
    record_evaluation(copy, failed)
    assert "Do not use it" in (copy / "README.md").read_text()


def test_an_evaluation_of_something_else_is_not_recorded(copy: Path) -> None:
    with pytest.raises(UsageError, match="not of the package's candidate"):
        record_evaluation(copy, samples.scale_norm().evaluation)


@pytest.mark.parametrize(
    "name", ["kernel.py", "native/cpp.py", "dispatch.json", "measurements.json", "README.md"]
)
def test_a_changed_file_is_found_out(copy: Path, name: str) -> None:
    file = copy / name
    file.write_text(file.read_text().replace("a", "b", 1))
    with pytest.raises(Conflict, match=name):
        read_package(copy)
    with pytest.raises(Conflict):
        package_candidate(copy)


def test_a_missing_file_and_a_broken_manifest_are_found_out(copy: Path) -> None:
    (copy / "op.py").unlink()
    with pytest.raises(Conflict, match=r"op\.py changed or missing"):
        read_package(copy)
    (copy / "manifest.json").write_text("{")
    with pytest.raises(Conflict, match="cannot be read"):
        read_package(copy)
    (copy / "manifest.json").unlink()
    with pytest.raises(NotFound, match="not an exported package"):
        read_package(copy)


def test_a_manifest_that_names_files_elsewhere_reads_nothing_there(
    copy: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("x")
    data = json.loads((copy / "manifest.json").read_text())
    data["files"]["../secret"] = hashlib.sha256(b"x").hexdigest()
    (copy / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(Conflict, match="secret"):
        read_package(copy)


def test_a_manifest_that_forgets_files_is_found_out(copy: Path) -> None:
    data = json.loads((copy / "manifest.json").read_text())
    del data["files"]["op.py"]
    (copy / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(Conflict, match=r"op\.py"):
        read_package(copy)


def test_names_become_importable_and_are_never_overwritten(tmp_path: Path) -> None:
    one = samples.min_max()
    first, second = export(tmp_path / "rms-norm 7f3a", one), export(tmp_path / "rms-norm 7f3a", one)
    assert first.path.name == "rms_norm_7f3a"
    assert second.path.name == "rms_norm_7f3a_2"
    assert read_package(first.path).manifest == read_package(second.path).manifest
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rms_norm_7f3a", "rms_norm_7f3a_2"]


def test_a_failed_export_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StoreError, match="No space left"):
        export(tmp_path / "p", samples.min_max())
    assert not list(tmp_path.iterdir())


def test_what_must_not_be_exported_is_refused(tmp_path: Path) -> None:
    one = samples.min_max()
    wrong = replace(
        one.evaluation, status="incorrect", signals=(Signal("wrong.values"),), fitness=0.0
    )
    with pytest.raises(UsageError, match="only a correct kernel"):
        export(tmp_path / "p", replace(one, evaluation=wrong))
    with pytest.raises(UsageError, match="another candidate or task"):
        export(tmp_path / "p", replace(one, evaluation=samples.double_it().evaluation))
    with pytest.raises(Conflict, match="review"):
        export(tmp_path / "p", one, policy=Policy(review=True))
    assert not list(tmp_path.iterdir())
    approved = export(
        tmp_path / "p",
        one,
        policy=Policy(review=True),
        approved_by="R. Viewer",
        approved_at="2026-01-02",
        lineage=[LineageStep("n1")],
    )
    assert approved.manifest.approved_by == "R. Viewer"
    assert "Approved by R. Viewer, 2026-01-02." in (approved.path / "README.md").read_text()
