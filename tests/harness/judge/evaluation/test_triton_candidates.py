"""Triton candidates without a GPU: verified by the interpreter, and compiled for every architecture
from the same file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client
from typer.testing import CliRunner

from harness.judge.evaluation import configurations
from harness.targets import ARCHITECTURES
from harness.types import Candidate, Evaluation, EvaluationRequest, Policy, Stage, Task
from kevolve_mcp.errors import Unavailable
from kevolve_mcp.executors import Executor
from kevolve_mcp.executors.testing import OpenJudge

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
DATA = Path(__file__).parents[3] / "data" / "triton"
T = TypeVar("T")


def text(name: str) -> str:
    return (DATA / f"{name}.py").read_text()


@dataclass
class Bench:
    """A judge driven from synchronous tests, with each task opened once."""

    run: Callable[[Coroutine[Any, Any, T]], T]
    executor: Executor
    tasks: dict[str, Task] = field(default_factory=dict)

    def task(self, source: str) -> Task:
        if source not in self.tasks:
            self.tasks[source] = self.run(self.executor.open_task(source, "", "cpu", timed=False))
        return self.tasks[source]

    def judge(
        self,
        source: str,
        task: str,
        target: str = "cpu",
        through: Stage = "verify",
        cases: tuple[str, ...] = (),
        **policy: Any,
    ) -> Evaluation:
        request = EvaluationRequest(
            Candidate(source, "triton"), "check", through, Policy(**policy), cases
        )
        return self.run(self.executor.evaluate(self.task(task), request, target))

    def compiled(self, source: str, task: str, target: str, *cases: str) -> Evaluation:
        return self.judge(source, task, target, "build", cases)


@pytest.fixture(scope="module")
def bench(judge: OpenJudge) -> Bench:
    return Bench(judge.run, judge.executor)


def names(evaluation: Evaluation) -> list[str]:
    return [s.name for s in evaluation.signals]


# ---- the interpreter -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "matmul", "add"])
def test_a_right_kernel_is_verified_and_not_timed(bench: Bench, name: str) -> None:
    found = bench.judge(text(name), text(f"{name}.task"), through="diagnose")
    assert found.status == "correct", found.message
    assert found.fitness is None
    assert not found.eligible
    assert "Triton's interpreter" in found.message
    assert [s.stage for s in found.stages] == ["build", "verify"]
    assert all(c.correct and c.speedup is None for c in found.cases)
    assert found.environment.device.endswith("triton-interpreter")
    assert "interpreter" in found.environment.toolchain


LOAD = "tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside)"
LAUNCH = "            add[("
FAULTS = {
    "wrong": ("incorrect", "wrong.values", LOAD, LOAD.replace(") + tl", ") - tl")),
    "tail": ("incorrect", "wrong.", "inside = i < n\n", "inside = i < n - 8\n"),
    "out of bounds": (
        "crashed",
        "crash.segmentation_fault",
        "tl.load(x + i, mask=inside)",
        "tl.load(x + i + 1000000000)",
    ),
    "writes its input": (
        "crashed",
        "crash.segmentation_fault",
        "tl.store(out + i",
        "tl.store(x + i",
    ),
    "unknown name": ("build_failed", "compile_error.undeclared_name", LOAD, "tl.nothing(x + i)"),
    "shapes": ("build_failed", "compile_error.shape_mismatch", LOAD, f"{LOAD} + tl.arange(0, 64)"),
    "host code": (
        "crashed",
        "crash.exception",
        LAUNCH,
        f"            raise RuntimeError('host')\n{LAUNCH}",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_has_its_verdict(bench: Bench, name: str) -> None:
    status, signal, old, new = FAULTS[name]
    source = text("add")
    assert old in source
    found = bench.judge(source.replace(old, new, 1), text("add.task"))
    assert found.status == status, found.message
    assert any(s.startswith(signal) for s in names(found)), found.signals
    assert found.fitness == 0.0


def test_every_configuration_of_an_autotuned_kernel_is_verified(bench: Bench) -> None:
    found = bench.judge(text("matmul"), text("matmul.task"))
    assert found.status == "correct", found.message
    told = found.stages[-1].data["configurations"]
    assert set(told) == {"square", "ragged"}
    for kernels in told.values():
        assert [label.split(",")[0] for label in kernels["matmul"]["verified"]] == [
            "BM: 32",
            "BM: 64",
        ]
        assert kernels["matmul"]["not_verified"] == []
    assert (
        bench.judge(text("softmax"), text("softmax.task")).stages[-1].data["configurations"] == {}
    )


def test_a_configuration_that_is_wrong_is_named(bench: Bench) -> None:
    """The first configuration is right; the second forgets a part of what it covers."""
    whole = "acc += tl.dot(x, y)"
    found = bench.judge(
        text("matmul").replace(whole, f"{whole} if BM == 32 else tl.dot(x, y) * 0.5"),
        text("matmul.task"),
    )
    assert found.status == "incorrect", found.message
    assert "configuration 2 (matmul: BM: 64" in found.message
    crashing = text("matmul").replace(
        whole,
        f"{whole}\n        if BM == 64:\n            acc += tl.load(a + 1000000000 + rows)[:, "
        "None]",
    )
    found = bench.judge(crashing, text("matmul.task"))
    assert found.status == "crashed", found.message
    assert "configuration 2" in found.message


def test_no_more_configurations_are_verified_than_the_bound(bench: Bench) -> None:
    first = '        triton.Config({"BM": 32, "BN": 32, "BK": 32}, num_warps=4, num_stages=2),\n'
    many = "".join(
        first.replace("num_stages=2", f"num_stages={n}") for n in range(2, 2 + configurations.MOST)
    )
    found = bench.judge(text("matmul").replace(first, many), text("matmul.task"), cases=("ragged",))
    assert found.status == "correct", found.message
    told = found.stages[-1].data["configurations"]["ragged"]["matmul"]
    assert len(told["verified"]) == configurations.MOST
    assert len(told["not_verified"]) == 1


def test_work_of_the_framework_needs_review(bench: Bench) -> None:
    plain = (
        "import torch.nn as nn\n\n\nclass ModelNew(nn.Module):\n    def forward(self, x, y):\n"
        "        return x + y\n"
    )
    found = bench.judge(plain, text("add.task"))
    assert (found.status, names(found)) == ("needs_review", ["policy.no_native_kernel"])
    helped = bench.judge(text("add").replace("return out", "return out + 0"), text("add.task"))
    assert (helped.status, names(helped)) == ("needs_review", ["policy.library_calls"])
    assert bench.judge(plain, text("add.task"), library_calls="allow").status == "correct"


NARROW = {
    "in the kernel": (LOAD, f"({LOAD}).to(tl.bfloat16)", "tl.bfloat16"),
    "in a launch": (
        LAUNCH,
        f"            x = x.to(torch.bfloat16)\n{LAUNCH}",
        "bfloat16 tensor reached",
    ),
    "fp8": (LOAD, f"({LOAD}).to(tl.float8e5)", "tl.float8e5"),
}


@pytest.mark.parametrize("name", NARROW)
def test_bf16_and_fp8_are_refused_with_the_reason(bench: Bench, name: str) -> None:
    old, new, said = NARROW[name]
    with pytest.raises(Unavailable, match="wrongly without an error") as refusal:
        bench.judge(text("add").replace(old, new, 1), text("add.task"))
    assert said in refusal.value.message
    assert "or only compile it for a GPU" in refusal.value.hint


def test_a_bf16_task_is_refused(bench: Bench) -> None:
    task = text("add.task").replace(
        "torch.randn(n), torch.randn(n)", "torch.randn(n).bfloat16(), torch.randn(n).bfloat16()"
    )
    with pytest.raises(Unavailable, match="bfloat16 tensors"):
        bench.judge(text("add"), task)
    assert bench.compiled(text("add"), task, "cuda:sm_90").status == "correct"


# ---- compiling -----------------------------------------------------------------------------------

PARTS = ("add", "softmax", "rmsnorm", "matmul")
EVERYTHING = """

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = [Softmax(), Rmsnorm(192), Matmul()]

    def forward(self, x, y):
        softmax, rmsnorm, matmul = self.parts
        softmax(x[:1000].view(5, 200))
        rmsnorm(torch.empty(5, 192, dtype=torch.float16, device="cuda"))
        matmul(x[:96 * 64].half().view(64, 96), y[:96 * 64].half().view(96, 64))
        return Add()(x, y)
"""


def everything() -> str:
    """One file whose forward launches the kernels of all the others."""
    return (
        "\n\n".join(text(p).replace("class ModelNew", f"class {p.capitalize()}") for p in PARTS)
        + EVERYTHING
    )


@pytest.mark.parametrize("target", sorted(ARCHITECTURES))
def test_every_launch_is_compiled_for_every_architecture(bench: Bench, target: str) -> None:
    found = bench.compiled(everything(), text("add.task"), target, "even")
    assert found.status == "correct", found.message
    assert found.fitness is None
    assert (found.target, found.cases) == (target, ())
    data = found.stages[0].data
    kernels = {k["kernel"]: k for k in data["kernels"]}
    assert set(kernels) == {"add", "reduce_rows", "divide_rows", "rmsnorm", "matmul", "matmul#2"}
    assert {n for n, k in kernels.items() if k["autotuned_alternative"]} == {"matmul#2"}
    assert all(k["launches"] == 1 for n, k in kernels.items() if n != "matmul#2")
    assert kernels["add"]["grid"] == [16, 1, 1]
    assert kernels["matmul"]["grid"] == [2, 2, 1]
    for kernel in kernels.values():
        assert any(kernel["registers"].values())
        assert not any(kernel["spills"].values())
        assert 0 < kernel["occupancy"]["fraction"] <= 1
        assert kernel["instructions"]["total"] > 5
    assert kernels["matmul"]["matrix_instructions"]
    assert kernels["matmul"]["shared_bytes"] >= 4096
    assert kernels["matmul"]["constants"]["BM"] == "32"
    assert not kernels["add"]["matrix_instructions"]
    nvidia = target.startswith("cuda")
    listings = data["listings"]
    assert {name.partition("/")[2] for name in listings} == (
        {"ptx", "sass"} if nvidia else {"amdgcn"}
    )
    assert (
        (".visible .entry add" in listings["add/ptx"])
        if nvidia
        else ("s_endpgm" in listings["add/amdgcn"])
    )
    assert (".target sm_" if nvidia else target.partition(":")[2]) in listings[
        "add/ptx" if nvidia else "add/amdgcn"
    ]


def test_specializations_are_those_of_the_launch(bench: Bench) -> None:
    """8192 is a multiple of 16 and 1001 is not: two kernels, the first with wider accesses."""
    found = bench.compiled(text("add"), text("add.task"), "cuda:sm_90")
    even, odd = found.stages[0].data["kernels"]
    assert (even["cases"], odd["cases"]) == (["even"], ["odd"])
    assert max(map(int, even["global_access_bits"])) > max(map(int, odd["global_access_bits"]))


COMPILER = {
    "unknown name": ("compile_error.undeclared_name", "cuda:sm_80", LOAD, "tl.nothing(x + i)"),
    "shapes": ("compile_error.shape_mismatch", "hip:gfx942", LOAD, f"{LOAD} + tl.arange(0, 64)"),
    "fp8 on Ampere": (
        "compile_error.unsupported_instruction",
        "cuda:sm_80",
        LOAD,
        f"({LOAD}).to(tl.float8e4nv).to(tl.float32)",
    ),
    "not a pointer": ("compile_error.type_mismatch", "cuda:sm_120", LOAD, "tl.load(n + i)"),
    "too large": (
        "compile_error.resource_limit",
        "cuda:sm_90",
        "i < n\n",
        "i < n\n    tl.zeros((2048, 2048), tl.float32)\n",
    ),
}


@pytest.mark.parametrize("name", COMPILER)
def test_what_does_not_compile_fails_with_the_reason(bench: Bench, name: str) -> None:
    signal, target, old, new = COMPILER[name]
    found = bench.compiled(text("add").replace(old, new, 1), text("add.task"), target)
    assert found.status == "build_failed", found.message
    assert {signal, "compile_error"} <= set(names(found)), found.signals
    assert found.fitness == 0.0


def test_more_shared_memory_than_there_is(bench: Bench) -> None:
    """Of an autotuned kernel one configuration must fit; a kernel of which none fits does not
    load."""
    large = (
        text("matmul")
        .replace('"BM": 64, "BN": 64, "BK": 32', '"BM": 128, "BN": 128, "BK": 64')
        .replace("num_stages=3", "num_stages=5")
    )
    found = bench.compiled(large, text("matmul.task"), "cuda:sm_120", "square")
    assert found.status == "correct", found.message
    assert any("shared memory" in k["refused"] for k in found.stages[0].data["kernels"])
    fits = '        triton.Config({"BM": 32, "BN": 32, "BK": 32}, num_warps=4, num_stages=2),\n'
    none = bench.compiled(large.replace(fits, ""), text("matmul.task"), "cuda:sm_120", "square")
    assert (none.status, names(none)[0]) == ("build_failed", "compile_error.resource_limit"), (
        none.message
    )


def test_spills_and_low_occupancy_are_signals(bench: Bench) -> None:
    wide = (
        text("add")
        .replace('"BLOCK": 512', '"BLOCK": 4096')
        .replace('BLOCK=PARAMS["BLOCK"])', 'BLOCK=PARAMS["BLOCK"], num_warps=1)')
    )
    loads = (
        "    a = tl.load(x + i, mask=inside)\n    b = tl.load(y + i, mask=inside)\n"
        "    s = tl.sum(a * b, axis=0)\n"
    )
    held = wide.replace("    tl.store(out", f"{loads}    tl.store(out").replace(
        f"i, {LOAD}", "i, a * b * s + a * s + b"
    )
    found = bench.compiled(held, text("add.task"), "cuda:sm_90")
    assert found.status == "correct", found.message
    assert {"register_spill", "low_occupancy"} <= set(names(found))
    assert all(s.evidence for s in found.signals)


def test_nothing_launched_needs_review(bench: Bench) -> None:
    plain = (
        "import torch.nn as nn\n\n\nclass ModelNew(nn.Module):\n    def forward(self, x, y):\n"
        "        return x + y\n"
    )
    found = bench.compiled(plain, text("add.task"), "cuda:sm_90")
    assert (found.status, names(found)) == ("needs_review", ["policy.no_native_kernel"])
    allowed = bench.judge(plain, text("add.task"), "cuda:sm_90", "build", library_calls="allow")
    assert (allowed.status, allowed.signals) == ("correct", ())


def test_gradients_are_compiled_too(bench: Bench) -> None:
    task = text("add.task") + "\n\nGRADIENTS = True\n"
    source = text("add").replace(
        "class ModelNew(nn.Module):\n    def forward(self, x, y):",
        "class Sum(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, y):\n"
        "        return launch(x, y)\n\n"
        "    @staticmethod\n    def backward(ctx, g):\n"
        "        return launch(g, torch.zeros_like(g)), g\n\n\n"
        "class ModelNew(nn.Module):\n    def forward(self, x, y):\n"
        "        return Sum.apply(x, y)\n\n\n"
        "if True:\n    def launch(x, y):",
    )
    verified = bench.judge(source, task)
    assert verified.status == "correct", verified.message
    found = bench.compiled(source, task, "cuda:sm_90")
    assert found.status == "correct", found.message
    assert sum(k["launches"] for k in found.stages[0].data["kernels"]) == 4


# ---- what is refused, and the faces that people use ----------------------------------------------


def test_only_what_is_offered_is_evaluated(bench: Bench) -> None:
    with pytest.raises(Unavailable, match="can only compile for") as refusal:
        bench.judge(text("add"), text("add.task"), "cuda:sm_90")
    assert "interpreter" in refusal.value.hint
    report = bench.run(bench.executor.describe())
    modes = {(t.target, language): t.mode for t in report.targets for language in t.languages}
    assert modes["cpu", "triton"] == "verify"
    assert modes["cpu", "cpp"] == "execute"
    assert {t for (t, language), mode in modes.items() if mode == "compile"} >= {
        "cuda:sm_80",
        "hip:gfx942",
    }


async def over_the_server(tmp_path: Path) -> None:
    from kevolve_mcp.server import build_server
    from kevolve_mcp.settings import Settings

    task, kernel = str(DATA / "add.task.py"), str(DATA / "add.py")
    async with Client(build_server(Settings(home=tmp_path / "home"))) as client:
        arguments = {"path": kernel, "task_path": task, "target": "cuda:sm_90", "wait_s": 50}
        answer = await client.call_tool("kernel_compile", arguments)
        said = "\n".join(block.text for block in answer.content if block.type == "text")
        assert not answer.is_error, said
        assert "add (BLOCK=512" in said
        assert "registers" in said
        assert len(said) < 4000
        evaluation = answer.structured_content["result"]["evaluation"]
        assert evaluation["fitness"] is None
        page = await client.call_tool(
            "tree_view", {"evaluation_id": evaluation["id"], "section": "assembly"}
        )
        listing = page.content[1].text
        assert "[add/ptx]" in listing
        assert ".target sm_90" in listing
        refused = await client.call_tool(
            "session_open",
            {"task_path": task, "language": "triton", "start_path": kernel, "wait_s": 50},
        )
        words = str(refused.content) + str(refused.structured_content)
        assert refused.is_error or "failed" in words
        assert "kernel_check" in words


def test_kernel_compile_over_the_server_and_a_session_that_cannot_measure(tmp_path: Path) -> None:
    asyncio.run(over_the_server(tmp_path))


def test_kevolve_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kevolve_mcp.cli.main import app

    monkeypatch.setenv("KEVOLVE_HOME", str(tmp_path))
    files = [str(DATA / "rmsnorm.task.py"), str(DATA / "rmsnorm.py")]
    done = CliRunner().invoke(app, ["compile", *files, "--target", "cuda:sm_90", "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout[done.stdout.index("{") :])
    assert answer["status"] == "correct"
    (kernel,) = answer["facts"]["build"]["kernels"]
    assert kernel["registers"]["registers"] > 0
    assert "rmsnorm/sass" in answer["facts"]["build"]["listings"]


def test_inputs_under_which_the_framework_itself_overflows_say_nothing(bench: Bench) -> None:
    """Products of half-precision numbers of this size leave the range of the type as soon as the
    inputs are scaled up."""
    task = text("matmul.task").replace(
        "torch.randn(m, 96).half()", "(40 * torch.randn(m, 96)).half()"
    )
    task = task.replace("torch.randn(96, 64).half()", "(20 * torch.randn(96, 64)).half()")
    found = bench.judge(text("matmul"), task)
    assert found.status == "correct", found.message
    assert any(
        "overflows" in why for c in bench.tasks[task].cases for why in c.dropped_families.values()
    )
