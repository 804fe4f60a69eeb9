"""Task files: every unmodified one opens, every bad one is refused with file and line, the reason
and the fix."""

from __future__ import annotations

import ast
import asyncio
import hashlib
import py_compile
import re
from pathlib import Path

import pytest

from harness.types import Candidate, EvaluationRequest, Policy, Purpose, Stage, Status, Task
from kevolve_mcp.errors import TaskRefused
from kevolve_mcp.executors import LocalExecutor
from tests.harness.conftest import Bench

DATA = Path(__file__).parents[3] / "data"
GOOD = [*sorted((DATA / "kernelbench").glob("*.py")), DATA / "bad_tasks" / "prints_a_lot.py"]
HANGS = {"hangs_in_forward": 8, "hangs_in_get_inputs": 12, "hangs_on_import": 20}
BAD = {  # name: line that the refusal names, words of the reason or the fix
    "baselines_are_no_functions": (4, "map names to callables"),
    "baselines_name_has_escapes": (4, "in BASELINES contains the character U+001B; accepted"),
    "baselines_use_a_taken_name": (5, "choose another name"),
    "carries_on_a_hidden_state": (10, "they change self.hidden: make it an input"),
    "cases_is_no_mapping": (4, "map names to keyword arguments"),
    "cases_name_an_unknown_argument": (4, "gives 'rowz'"),
    "cases_name_has_lines": (4, "in CASES contains the character U+000A; accepted is text of"),
    "cases_name_hides_text": (4, "contains the character U+E0149"),
    "cases_name_is_a_number": (4, "map names to keyword arguments"),
    "changes_an_attribute": (6, "forward changes self.largest, a plain attribute"),
    "changes_its_input": (6, "clone them first"),
    "has_a_lazy_layer": (10, "use the module that is not lazy"),
    "keeps_quantized_weights": (11, "packed is a quantized tensor"),
    "keeps_sparse_weights": (10, "edges is a sparse_coo tensor"),
    "constant_output": (6, "a constant would pass the check in place of the outputs"),
    "counts_its_calls": (8, "Make it a buffer"),
    "depends_on_a_buffer_of_calls": (10, "depend on earlier calls, which changed self.largest"),
    "depends_on_the_first_call": (8, "depend on earlier calls, which changed self.largest"),
    "differs_in_float64": (6, "depend on the dtype"),
    "equal_rows": (6, "a few rows computed"),
    "exits_on_import": (20, "exited with 0"),
    "get_inputs_returns_no_list": (7, "must be Tensor, not int"),
    "held_out_is_a_number": (5, "takes case names or ranges"),
    "held_out_names_no_case": (5, "choose from: small"),
    "holds_too_much": (7, "Use smaller shapes"),
    "ignores_its_input": (6, "the outputs for other inputs"),
    "imports_what_is_not_there": (1, "Install it where the evaluator runs"),
    "init_inputs_are_no_list": (17, "as a list, or as a dict"),
    "inputs_cannot_cross": (10, "is a object; tensors, numbers"),
    "lacks_get_inputs": (11, "add one that returns the list"),
    "lacks_model": (9, "a task is a KernelBench file"),
    "lengthens_a_buffer": (10, "keep its shape and dtype"),
    "masked_output": (4, "return the values before the fill"),
    "mean_of_the_output": (6, "their mean would pass the check in place of the outputs"),
    "non_finite_output": (6, "Keep the inputs inside"),
    "nondeterministic_reference": (6, "must be deterministic"),
    "output_cannot_be_compared": (6, "return the bytes instead"),
    "output_equals_input": (6, "an input, or a view of it,"),
    "output_is_a_part_of_an_input": (6, "an input, or a view of it,"),
    "output_is_a_transposed_input": (6, "an input, or a view of it,"),
    "protected_is_a_string": (5, "must be a list"),
    "protected_names_no_case": (5, "choose from: small, large"),
    "raises_in_constructor": (8, "no such mode"),
    "raises_in_forward": (7, "cannot handle a width of 32"),
    "raises_in_get_inputs": (11, "run by itself in Python"),
    "raises_on_import": (18, "import the file by itself"),
    "returns_no_tensor": (6, "only plain tensors"),
    "segfaults_in_forward": (9, "signal 11"),
    "shapes_are_drawn": (10, "differ between draws"),
    "shapes_follow_values": (6, "must be fixed for a case"),
    "syntax_error": (7, "fix the syntax"),
    "tolerance_is_unknown": (4, 'accepted: "default", "bitwise"'),
    "weights_are_negative": (5, "numbers >= 0"),
    "weights_leave_nothing": (5, "at least one positive weight"),
    "weights_name_no_case": (7, "choose from: small"),
    "wrong_constructor_arguments": (6, "takes 2 positional arguments but 3"),
    "zero_output": (6, "zeros would pass the check in place of the outputs"),
}


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_an_unmodified_file_is_a_task(bench: Bench, path: Path) -> None:
    task = bench.run(bench.executor.open_task(path.read_text(), str(path), "cpu", timed=False))
    assert task.name == path.stem
    assert task.cases[0].inputs
    assert task.cases[0].outputs
    assert task.cases[0].bytes_min > 0
    assert task.operators


def test_every_bad_file_is_listed_here() -> None:
    assert {p.stem for p in (DATA / "bad_tasks").glob("*.py")} == {*BAD, *HANGS, "prints_a_lot"}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_with_line_reason_and_fix(bench: Bench, name: str) -> None:
    line, words = BAD[name]
    path = DATA / "bad_tasks" / f"{name}.py"
    with pytest.raises(TaskRefused, match=re.escape(words)) as refusal:
        bench.run(bench.executor.open_task(path.read_text(), str(path), "cpu", timed=False))
    assert refusal.value.message.startswith(f"{path.name}, line {line}: ")
    assert refusal.value.hint


def test_a_task_whose_baselines_do_not_run_is_refused(bench: Bench) -> None:
    source = (
        "import gc\nimport torch\n\ndef reference(x):\n"
        "    if not gc.isenabled():  # as in a burst\n        raise ValueError('not now')\n"
        "    return torch.sin(x)\n\ndef get_inputs():\n    return [torch.randn(8, 32)]\n"
    )
    with pytest.raises(TaskRefused, match="nothing to compare with") as refusal:
        bench.run(bench.executor.open_task(source, "", "cpu", timed=True))
    assert refusal.value.message.startswith("task.py, line ")
    assert "baseline eager does not run" in refusal.value.message
    assert "not now" in refusal.value.message


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("{(0, 1): torch.ones(2)}", "value[0] has a key that is a tuple; numbers, strings"),
        ("'a' * 200_000", "the values besides tensors take 2000"),
    ],
    ids=["key", "text"],
)
def test_arguments_that_cannot_cross_are_named(bench: Bench, given: str, words: str) -> None:
    source = (
        "import torch\n\ndef reference(given, x):\n    return torch.sin(x)\n\n"
        f"def get_inputs():\n    return [{given}, torch.randn(8, 32)]\n"
    )
    with pytest.raises(TaskRefused, match=re.escape(words)) as refusal:
        bench.run(bench.executor.open_task(source, "", "cpu", timed=False))
    assert refusal.value.message.startswith("task.py, line 6: ")


def test_parameters_that_make_a_task_pointless_are_drawn_again(bench: Bench) -> None:
    source = (
        "import torch\n\nmade = []\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n"
        "        made.append(1)\n        self.weight = torch.nn.Parameter(torch.full((32,), "
        "float(len(made) > 1)))\n\n"
        "    def forward(self, x):\n        return torch.sin(x) * self.weight\n\n\n"
        "def get_inputs():\n    return [torch.randn(64, 32)]\n\n\ndef get_init_inputs():\n"
        "    return []\n"
    )
    task = bench.run(bench.executor.open_task(source, "", "cpu", timed=False))
    candidate = Candidate(f"{source}\n\nclass ModelNew(Model):\n    pass\n", "cpp")
    request = EvaluationRequest(candidate, "check", "verify", Policy(library_calls="allow"))
    assert bench.run(bench.executor.evaluate(task, request, "cpu")).status == "correct"


SLOW_AND_GONE = """
import os, signal, time
import torch


def reference(x):
    time.sleep(2.3)
    os.kill(os.getpid(), signal.SIGSEGV)
    return x * 2


def get_inputs():
    return [torch.randn(8)]
"""


def test_who_dies_of_being_looked_at_was_too_slow(
    judge_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python may crash where it writes down the stack of a process that runs."""
    monkeypatch.setenv("KEVOLVE_TASK_SECONDS", "2.5")

    async def body() -> None:
        async with LocalExecutor(None, judge_cache) as executor:
            with pytest.raises(TaskRefused, match=r"line 7: the task did not answer in time"):
                await executor.open_task(SLOW_AND_GONE, "gone.py", "cpu", timed=False)

    asyncio.run(body())


def test_a_task_that_hangs_is_refused_with_the_line_that_runs(
    judge_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEVOLVE_TASK_SECONDS", "2.5")

    async def body() -> None:
        async with LocalExecutor(None, judge_cache) as executor:
            for name, line in HANGS.items():
                path = DATA / "bad_tasks" / f"{name}.py"
                with pytest.raises(TaskRefused, match="did not answer in time") as refusal:
                    await executor.open_task(path.read_text(), str(path), "cpu", timed=False)
                # the line in the loop, its head or, where Python counts it so, its function's
                lines = "|".join(str(line - n) for n in range(3))
                assert re.match(rf"{path.name}, line ({lines}): ", refusal.value.message)

    asyncio.run(body())


def test_a_task_larger_than_the_machine_is_refused(bench: Bench) -> None:
    source = (
        "import torch\n\n\ndef reference(x):\n    return x.sin()\n\n\ndef get_inputs():\n"
        "    return [torch.zeros(1).expand(1 << 42)]\n"
    )
    with pytest.raises(TaskRefused, match="smaller shapes") as refusal:
        bench.run(bench.executor.open_task(source, "", "cpu", timed=False))
    assert refusal.value.message.startswith("task.py, line ")


def test_cases_carry_weights_protection_and_held_out_draws(bench: Bench) -> None:
    names = [c.name for c in bench.task.cases]
    assert names[:2] == ["small", "odd"]
    drawn = [c for c in bench.task.cases if c.held_out]
    assert len(drawn) == 2
    assert all(1 <= c.arguments["rows"] <= 64 for c in drawn)
    assert [c.name for c in bench.task.visible_cases] == ["small", "odd"]


def test_sugar_and_gradients(bench: Bench) -> None:
    source = (
        "import torch\nGRADIENTS = True\n\ndef reference(x):\n    return torch.sin(x)\n\n"
        "def get_inputs():\n    return [torch.randn(8, 32)]\n"
    )
    ast.parse(source)
    task = bench.run(bench.executor.open_task(source, "", "cpu", timed=False))
    assert task.gradients
    # its own; those that flow back from the outputs are no inputs of the task
    assert len(task.cases[0].inputs) == 1
    assert len(task.cases[0].outputs) == 2  # the result and the gradient of its input
    right = "import torch\n\ndef kernel(x):\n    return x.sin()\n"
    wrong = "import torch\n\ndef kernel(x):\n    return x.detach().sin() + 0 * x\n"
    from harness.types import Candidate, EvaluationRequest, Policy

    policy = Policy(library_calls="allow")
    for text, status in ((right, "correct"), (wrong, "incorrect")):
        request = EvaluationRequest(Candidate(text, "cpp"), "check", "verify", policy)
        assert bench.run(bench.executor.evaluate(task, request, "cpu")).status == status


NEIGHBOURLY = (
    "import torch\nfrom activation import activation\n\nHELD_OUT = [{'rows': (9, 20)}]\n\n"
    "def reference(x):\n    return activation(x)\n\ndef get_inputs(rows=8):\n"
    "    return [torch.randn(rows, 32)]\n"
)
RELU = "import torch\n\ndef kernel(x):\n    return torch.relu(x)\n"


def _with_helper(folder: Path, function: str, text: str = NEIGHBOURLY) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "activation.py").write_text(
        f"import torch\n\ndef activation(x):\n    return torch.nn.functional.{function}(x)\n"
    )
    (folder / "task.py").write_text(text)
    return folder / "task.py"


def _opened(bench: Bench, path: Path) -> Task:
    return bench.run(bench.executor.open_task(path.read_text(), str(path), "cpu", timed=False))


def _judged(
    bench: Bench, task: Task, purpose: Purpose = "check", through: Stage = "verify"
) -> Status:
    request = EvaluationRequest(
        Candidate(RELU, "cpp"), purpose, through, Policy(library_calls="allow")
    )
    return bench.run(bench.executor.evaluate(task, request, "cpu")).status


def test_a_helper_in_the_folder_belongs_to_the_identity(bench: Bench, tmp_path: Path) -> None:
    one, other = (_with_helper(tmp_path / function, function) for function in ("relu", "gelu"))
    tasks = [_opened(bench, path) for path in (one, other)]
    assert tasks[0].digest != tasks[1].digest
    assert [list(t.neighbours) for t in tasks] == [["activation.py"]] * 2
    assert [_judged(bench, t) for t in tasks] == ["correct", "incorrect"]
    assert _opened(bench, _with_helper(tmp_path / "again", "relu")).digest == tasks[0].digest


def test_without_helpers_text_and_companion_are_the_identity(bench: Bench) -> None:
    companion = Path(bench.task.path).with_name("task.heldout.py")
    held_out = companion.read_text() if companion.is_file() else ""
    assert bench.task.neighbours == {}
    assert (
        bench.task.digest == hashlib.sha256(f"{bench.task.source}\0{held_out}".encode()).hexdigest()
    )


def test_an_edited_helper_makes_another_task(bench: Bench, tmp_path: Path) -> None:
    path = _with_helper(tmp_path / "task", "relu")
    py_compile.compile(
        str(path.with_name("activation.py")),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    before = _opened(bench, path)
    _with_helper(tmp_path / "task", "selu")  # of equal length, and perhaps in the same second
    with pytest.raises(
        TaskRefused, match=r"activation\.py beside the task changed .* open the task again"
    ):
        _judged(bench, before, "search", "time")  # where a process for baselines is started
    with pytest.raises(TaskRefused, match=r"activation\.py changed .* open the task again"):
        _judged(bench, before, "confirm")
    after = _opened(bench, path)
    assert after.digest != before.digest
    assert _judged(bench, after) == "incorrect"


def test_data_read_from_the_folder_belongs_to_the_identity(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "scale.txt").write_text("2.0")
    path = folder / "task.py"
    path.write_text(
        "import torch\n\ndef reference(x):\n    return x * float(open('scale.txt').read())\n\n"
        "def get_inputs():\n    return [torch.randn(8, 32)]\n"
    )
    before = _opened(bench, path)
    assert list(before.neighbours) == ["scale.txt"]  # though it is read when forward runs
    (folder / "scale.txt").write_text("3.0")
    assert _opened(bench, path).digest != before.digest


def test_a_helper_that_only_a_held_out_case_imports_is_refused(
    bench: Bench, tmp_path: Path
) -> None:
    late = (
        "def reference(x):\n    if len(x) == 8:\n        return torch.relu(x)\n"
        "    from activation import activation\n"
    )
    text = NEIGHBOURLY.replace("from activation import activation\n", "").replace(
        "def reference(x):\n", late
    )
    task = _opened(bench, _with_helper(tmp_path / "task", "relu", text))
    assert task.neighbours == {}
    with pytest.raises(TaskRefused, match=r"activation\.py beside the task .* at module level"):
        _judged(bench, task, "confirm")
