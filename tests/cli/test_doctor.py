"""`kevolve doctor` tells the truth about this machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from harness.types import Device, Interpreter, MachineReport, TargetReport
from kevolve_mcp.cli.render.machine import machine_view
from kevolve_mcp.errors import Unavailable
from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.server import diagnosis
from kevolve_mcp.server.diagnosis import Diagnosis, DoctorFinding
from kevolve_mcp.settings import Settings

from .conftest import Kevolve
from .test_render import text_of


class NoTorch(FakeExecutor):
    """A machine on which no interpreter has torch."""

    async def describe(self, *, ceilings: bool = False) -> MachineReport:
        raise Unavailable("no interpreter with torch was found", "Install torch.")

    async def interpreters(self) -> tuple[Interpreter, ...]:
        return (Interpreter("/usr/bin/python3", "PATH", False, "torch is not installed [none]"),)


def diagnose(executor: FakeExecutor) -> Diagnosis:
    async def run() -> Diagnosis:
        return await diagnosis.diagnose(executor, Settings())

    return anyio.run(run)


def finding(found: Diagnosis, name: str) -> DoctorFinding:
    return next(f for f in found.findings if f.name == name)


def test_a_machine_that_can_evaluate(kevolve: Kevolve) -> None:
    result = kevolve("doctor")
    assert "Kernels can be evaluated here." in result.stdout
    assert result.exit_code == 0
    for part in ("interpreters", "compiler", "isolation", "targets", "no NVIDIA driver answered"):
        assert part in result.stdout


def test_json_is_pure_and_says_the_same(kevolve: Kevolve, home: Path) -> None:
    data = json.loads(kevolve("doctor", "--json").stdout)
    assert data["ready"] is True
    assert {f["name"] for f in data["findings"]} >= {
        "kevolve",
        "platform",
        "home",
        "compiler",
        "torch",
        "isolation",
        "targets",
    }
    assert str(home) in next(f["message"] for f in data["findings"] if f["name"] == "home")
    assert data["targets"][0]["target"] == "cpu"
    assert data["targets"][0]["mode"] == "execute"


def test_without_torch_it_says_what_to_install_and_what_was_refused() -> None:
    found = diagnose(NoTorch())
    assert not found.ready
    assert finding(found, "torch").state == "missing"
    assert "kevolve-mcp[torch]" in finding(found, "torch").remedy
    shown = text_of(machine_view(found))
    assert "torch is not installed [none]" in shown
    assert "pip install 'kevolve-mcp[torch]'" in shown
    assert "cannot be evaluated here yet" in shown


class TwoGpus(FakeExecutor):
    """One GPU is free, one is used by somebody else."""

    async def devices(self) -> tuple[Device, ...]:
        return (
            Device(0, "GPU-aa", "Fake 9000", "sm_90", 80 << 30, 1 << 30, measuring=True),
            Device(1, "GPU-bb", "Fake 9000", "sm_90", 80 << 30, 0, ("process 7 (train)",)),
        )


def test_every_gpu_is_listed_with_who_is_on_it() -> None:
    found = diagnose(TwoGpus())
    assert finding(found, "gpus").state == "warning"
    assert "process 7 (train)" in finding(found, "gpus").message
    shown = text_of(machine_view(found))
    for part in ("GPU-aa", "GPU-bb", "being timed on", "1024 of 81920 MiB", "sm_90"):
        assert part in shown
    assert [d["index"] for d in found.as_json()["devices"]] == [0, 1]
    assert found.ready
    assert "gpus" not in {f.name for f in diagnose(FakeExecutor()).findings}


def report(width: int, executor: FakeExecutor) -> str:
    return text_of(machine_view(diagnose(executor)), width)


class ManyTargets(FakeExecutor):
    """Compiles for four architectures, two of them in the same way."""

    async def describe(self, *, ceilings: bool = False) -> MachineReport:
        found = await super().describe(ceilings=ceilings)
        said = "compile-only: nothing is run; compiler 3"
        more = [
            TargetReport(f"cuda:sm_{n}", "compile", said, ("triton",), ("static facts",))
            for n in (80, 90)
        ]
        cuda = [TargetReport("cuda:sm_80", "compile", said, ("cuda",), ("static facts",))]
        return replace(found, targets=(*found.targets, *more, *cuda))


@pytest.mark.parametrize("width", [100, 160])
def test_targets_of_which_the_same_is_said_stand_together(width: int) -> None:
    shown = report(width, ManyTargets())
    assert shown.count("compile-only: nothing is run") == 2
    assert "cuda:sm_80, cuda:sm_90" in shown
    assert "compiled only" in shown
    assert [t["target"] for t in diagnose(ManyTargets()).as_json()["targets"]][2:] == [
        "cuda:sm_80",
        "cuda:sm_90",
        "cuda:sm_80",
    ]


def test_a_narrow_terminal_cuts_no_path_and_indents_what_goes_on() -> None:
    shown = report(80, ManyTargets())
    assert "…" not in shown
    lines = shown.splitlines()
    findings = lines[1 : lines.index("")]
    assert all(line.startswith(("  ✓ ", "  ! ", "  ✗ ", "    ")) for line in findings)
    assert any(line.startswith("    ") for line in findings)


def test_without_a_compiler_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "COMPILERS", ("no-such-compiler",))
    found = diagnose(FakeExecutor())
    assert not found.ready
    assert "apt install g++" in finding(found, "compiler").remedy


@pytest.mark.parametrize("name", ["home", "cache"])
def test_a_folder_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    assert "is writable" in finding(diagnose(FakeExecutor()), name).message
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv(f"KEVOLVE_{name.upper()}", str(blocked / "inside"))
    found = diagnose(FakeExecutor())
    assert finding(found, name).state == "missing"
    assert f"KEVOLVE_{name.upper()}" in finding(found, name).remedy


def test_weak_isolation_is_a_warning_with_both_ways_out() -> None:
    isolation = finding(diagnose(FakeExecutor(isolation="process")), "isolation")
    assert isolation.state == "warning"
    assert "not here" in isolation.message
    assert "--isolation process" in isolation.remedy


def test_a_machine_without_any_target_is_not_ready() -> None:
    assert finding(diagnose(FakeExecutor(mode="absent")), "targets").state == "missing"


def test_exit_code_one_when_nothing_can_be_evaluated(
    kevolve: Kevolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kevolve_mcp.cli.backend.local.open_executor", lambda python, near: NoTorch()
    )
    assert kevolve("doctor").exit_code == 1
