"""The Triton samples: compiled for GPUs as they are, and right in Triton's interpreter in float32,
which computes bfloat16 wrongly. There the tasks are the samples' own with fewer rows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from knowledge import Library, Page

from .test_samples import block
from .test_triton_examples import build

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
SAMPLES = {
    page.id.split("/")[1]: page
    for page in Library.builtin().pages()
    if page.category == "sample" and "triton" in page.languages
}
# as `forward` launches them, written as in the pages
KERNELS = {
    "embedding_bags_triton": [
        "kernel=bags sig=*i64,*bf16,*bf16,i32,i32,i32,i32 D=64 DP=64 BAGS=4 STEP=4 num_warps=1"
    ],
    "layer_norm_backward_triton": [
        "kernel=by_row sig=*bf16,*bf16,*fp32,*fp32,*bf16,*bf16,*fp32,*fp32,i32,i32 BLOCK=4096 "
        "num_warps=8",
        "kernel=by_column sig=*fp32,*fp32,*bf16,*bf16,i32,i32 BP=64 BC=32 num_warps=4",
    ],
    "split_k_linear_triton": [
        "kernel=linear sig=*bf16,*bf16,*bf16,*bf16,*fp32,*i32,i32,i32,i32,i32 BM=16 BN=64 BK=128 "
        "SPLIT=8 num_warps=4 num_stages=4"
    ],
}
FEWER = {
    "embedding_bags_triton": {26: 3, 4096: 40, 512: 9, 333: 33, 20000: 300, 1000: 100, 100: 20},
    "layer_norm_backward_triton": {8192: 20, 512: 4, 16384: 16, 777: 9},
    "split_k_linear_triton": {16384: 2048, 4104: 520, 4096: 256, 2048: 320, 1000: 100},
}
# tables, and programs that share the rows
IN_CANDIDATES = {"embedding_bags_triton": {26: 3}, "layer_norm_backward_triton": {264: 6}}
RUN = """
import sys, torch
from importlib.util import module_from_spec, spec_from_file_location

def loaded(name):
    spec = spec_from_file_location(name, name + ".py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

def given(function, case):
    code = function.__code__
    return function(**{k: v for k, v in case.items() if k in code.co_varnames[:code.co_argcount]})

torch.manual_seed(1)
for name in sys.argv[1:]:
    task, candidate = loaded(name + "_task"), loaded(name)
    for case in task.CASES.values():
        arguments = given(task.get_init_inputs, case)
        model, new = task.Model(*arguments), candidate.ModelNew(*arguments)
        new.load_state_dict(model.state_dict())
        inputs = given(task.get_inputs, case)
        with torch.no_grad():
            torch.testing.assert_close(new(*inputs), model(*inputs), rtol=1e-4, atol=1e-4)
        print(name, case)
"""


def in_float32(page: Page, kind: str) -> str:
    """The sample's task or candidate with other sizes and dtypes."""
    name = page.id.split("/")[1]
    sizes = FEWER[name] if kind == "task" else IN_CANDIDATES.get(name, {})
    text = block(page, kind)
    text = re.sub(r"\b\d+\b", lambda m: str(sizes.get(int(m[0]), m[0])), text)
    return text.replace(".bfloat16()", ".float()").replace("torch.bfloat16", "torch.float32")


def test_every_triton_sample_is_tried() -> None:
    assert SAMPLES.keys() == KERNELS.keys() == FEWER.keys()
    for name, kernels in KERNELS.items():
        named = re.findall(
            r"^@triton\.jit\ndef (\w+)", block(SAMPLES[name], "candidate"), re.MULTILINE
        )
        assert [k.split()[0] for k in kernels] == [f"kernel={k}" for k in named]


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_a_sample_compile(name: str, target: str, tmp_path: Path) -> None:
    for kernel in KERNELS[name]:
        given = dict(word.split("=", 1) for word in kernel.split())
        build({**given, "target": target}, block(SAMPLES[name], "candidate"), tmp_path)


def test_samples_are_right_in_the_interpreter(tmp_path: Path) -> None:
    for name, page in SAMPLES.items():
        (tmp_path / f"{name}.py").write_text(in_float32(page, "candidate"), encoding="utf-8")
        (tmp_path / f"{name}_task.py").write_text(in_float32(page, "task"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", RUN, *SAMPLES],
        cwd=tmp_path,
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == 12
