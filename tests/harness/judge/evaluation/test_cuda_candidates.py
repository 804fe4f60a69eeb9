"""CUDA C++ candidates without a GPU: compiled for every architecture, with the block sizes that
host code launches."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from harness.judge.errors import WorkerFailed
from harness.judge.failures import explain
from harness.judge.processes.builds import BuildRecord
from harness.languages import Cuda
from harness.native import find_toolkit
from harness.targets.cubin import own_shared, split
from harness.types import Candidate, Evaluation, EvaluationRequest, Stage, Task
from kevolve_mcp.errors import Unavailable
from kevolve_mcp.executors import Executor
from kevolve_mcp.executors.testing import OpenJudge

compiles = pytest.mark.skipif(not find_toolkit().version, reason="neither NVRTC nor nvcc is here")
DATA = Path(__file__).parents[3] / "data"
GOOD = (DATA / "cuda" / "rmsnorm.py").read_text()
ONE = (DATA / "candidates" / "cuda_rows.py").read_text()
T = TypeVar("T")


@dataclass
class Bench:
    """A judge driven from synchronous tests, with each task opened once."""

    run: Callable[[Coroutine[Any, Any, T]], T]
    executor: Executor
    tasks: dict[str, Task] = field(default_factory=dict)

    def judge(
        self, source: str, path: str, target: str, through: Stage = "build", language: str = "cuda"
    ) -> Evaluation:
        if path not in self.tasks:
            self.tasks[path] = self.run(
                self.executor.open_task((DATA / path).read_text(), "", target, timed=False)
            )
        request = EvaluationRequest(Candidate(source, language), "check", through)
        return self.run(self.executor.evaluate(self.tasks[path], request, target))

    def compiled(self, source: str, target: str = "cuda:sm_90") -> Evaluation:
        return self.judge(source, "candidates/task.py", target)


@pytest.fixture(scope="module")
def bench(judge: OpenJudge) -> Bench:
    return Bench(judge.run, judge.executor)


def names(evaluation: Evaluation) -> list[str]:
    return [s.name for s in evaluation.signals]


def kernels(evaluation: Evaluation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = evaluation.stages[0].data["kernels"]
    return found


@compiles
def test_an_instance_of_a_template_is_compiled_and_described(bench: Bench) -> None:
    found = bench.judge(GOOD, "triton/rmsnorm.task.py", "cuda:sm_120")
    assert found.status == "correct", found.message
    assert found.fitness is None
    assert "nothing was run" in found.message
    (kernel,) = kernels(found)
    assert kernel["kernel"] == "rmsnorm<__half>"
    assert kernel["configuration"] == "block=256"
    assert (kernel["grid"], kernel["block"], kernel["num_warps"]) == ([5, 1, 1], [256, 1, 1], 8)
    assert kernel["shared_bytes"] == 4 * 256 // 32, "what the kernel declares"
    assert 8 <= kernel["registers"]["registers"] <= 255
    assert kernel["occupancy"]["limiter"] == "warps"
    assert "rmsnorm<__half>/ptx" in found.stages[0].data["listings"]


@compiles
def test_occupancy_is_that_of_the_launch(bench: Bench) -> None:
    found = bench.compiled(ONE.replace("4 * threads]", "200_000]"))
    (kernel,) = kernels(found)
    assert kernel["shared_bytes"] == 200_000
    assert kernel["occupancy"]["blocks"] == 1
    assert kernel["occupancy"]["limiter"] == "shared memory"
    assert "low_occupancy" in names(found)
    assert kernel["cases"] == ["small", "odd"]


@compiles
def test_a_launch_that_no_multiprocessor_can_take_is_a_failed_build(bench: Bench) -> None:
    found = bench.compiled(ONE.replace("4 * threads]", "200_000]"), "cuda:sm_80")
    assert found.status == "build_failed"
    assert names(found)[0] == "compile_error.resource_limit"
    assert "200000 bytes of shared memory" in found.message


@compiles
def test_what_the_compiler_says_comes_back_with_its_line(bench: Bench) -> None:
    found = bench.compiled(ONE.replace("float sum = 0.0f;", "floot sum = 0.0f;"))
    assert found.status == "build_failed"
    assert names(found)[0] == "compile_error.undeclared_name"
    assert 'CUDA line 7: identifier "floot" is undefined' in found.message


@compiles
def test_a_file_that_launches_nothing_needs_review(bench: Bench) -> None:
    launch = "library.rows[x.shape[0], threads, 4 * threads](x, self.weight, y, x.shape[1])"
    found = bench.compiled(ONE.replace(launch, "pass"))
    assert found.status == "needs_review"
    assert "policy.no_native_kernel" in names(found)


@compiles
def test_a_mistake_of_the_host_code_is_found_without_a_device(bench: Bench) -> None:
    found = bench.compiled(
        ONE.replace("(x, self.weight, y, x.shape[1])", "(x.double(), self.weight, y, x.shape[1])")
    )
    assert found.status == "crashed"
    assert "argument 1: got torch.float64, the kernel takes torch.float32" in found.message


@compiles
def test_other_languages_and_stages_are_refused_with_what_there_is(bench: Bench) -> None:
    with pytest.raises(Unavailable, match=r"cpp cannot be compiled for cuda:sm_90 here"):
        bench.judge("def kernel(x): return x", "candidates/task.py", "cuda:sm_90", language="cpp")
    with pytest.raises(Unavailable, match="can only compile for"):
        bench.judge(ONE, "candidates/task.py", "cuda:sm_90", through="verify")
    with pytest.raises(Unavailable, match=r"cuda cannot be compiled for hip:gfx942"):
        bench.judge(ONE, "candidates/task.py", "hip:gfx942")


@compiles
def test_the_machine_says_so(bench: Bench) -> None:
    report = bench.run(bench.executor.describe())
    able = {t.target for t in report.targets if t.mode == "compile" and t.languages == ("cuda",)}
    assert able == {"cuda:sm_80", "cuda:sm_90", "cuda:sm_100", "cuda:sm_120"}


def test_a_missing_compiler_is_the_machines_fault_not_the_texts() -> None:
    text = "there is no compiler for CUDA C++"
    record = BuildRecord(False, False, 0.0, text, (), missing=True, language="cuda", reply=text)
    failure = explain(
        WorkerFailed("native", f"NativeError: {text}"), "loading", "", False, [record], Cuda()
    )
    assert failure.status == "build_failed"
    assert [s.name for s in failure.signals] == ["toolchain_missing"]


def test_a_device_fault_that_the_driver_reports_is_one() -> None:
    said = (
        "NativeError: the launch failed: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory "
        "access was encountered"
    )
    failure = explain(WorkerFailed("native", said), "case a", "", False, [], Cuda())
    assert failure.status == "crashed"
    assert failure.signals[0].name == "crash.illegal_address"


PTX = """.version 9.0
.visible .entry first(
\t.param .u64 first_param_0
)
{
\t{add.f16x2 %r1,%r2,%r3;
}
\tret;
}

.visible .entry _Z6secondPf(
)
{
\tret;
}
"""
SASS = """//--------------------- .text.first               --------------------------
\t.section\t.text.first,"ax",@progbits
.text.first:
        /*0000*/                   EXIT ;
//--------------------- .text._Z6secondPf         --------------------------
.text._Z6secondPf:
        /*0000*/                   NOP ;
"""
LOG = """ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 8 bytes cumulative stack size, 1024 bytes smem, 376 bytes cmem[0]
ptxas info    : Compiling entry function '_Z6secondPf' for 'sm_90a'
ptxas info    : Used 10 registers
"""  # noqa: E501


def test_what_is_said_of_a_binary_is_told_apart_by_kernel() -> None:
    found = split(PTX, SASS, LOG)
    assert set(found) == {"first", "_Z6secondPf"}
    assert found["first"].ptx.endswith("}\n\tret;\n}")
    assert "EXIT" in found["first"].sass
    assert "NOP" not in found["first"].sass
    assert found["first"].resources == "REG:40 STACK:8 SHARED:1024"
    assert own_shared(found["first"].resources) == 1024
    assert found["_Z6secondPf"].resources == "REG:10"
    assert split("", "", "") == {}
