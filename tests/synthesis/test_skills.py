"""Matching skills to tasks and writing candidates from templates, on the text level."""

from __future__ import annotations

import ast
import platform
import shutil
import subprocess

import pytest

from harness.native import read_prototypes
from harness.types import Candidate, Task
from kevolve_mcp.synthesis import instantiate, structural_names
from kevolve_mcp.synthesis.program import NotReadable, Program
from knowledge import Library, Skill

from .helpers import model, pointwise_task, rmsnorm_task, spec, task

SKILLS = {s.id.split("/")[1]: s for s in Library.builtin().skills()}
GXX = shutil.which("g++")
X86 = platform.machine() in ("x86_64", "AMD64")
ROWS = spec("float32", 64, 1000)


def made(name: str, sample: Task, target: str = "cpu", language: str = "cpp") -> list[str]:
    result = instantiate(SKILLS[name], sample, target, language)
    assert result.found, result.reason
    return [i.candidate.source for i in result.found]


def refused(name: str, sample: Task, target: str = "cpu", language: str = "cpp") -> str:
    result = instantiate(SKILLS[name], sample, target, language)
    assert not result.found
    return result.reason


@pytest.mark.parametrize("skill", SKILLS.values(), ids=SKILLS)
def test_templates_parse_and_their_literals_agree(skill: Skill) -> None:
    (language,) = skill.page.languages
    for name in skill.templates:
        candidate = Candidate(skill.files[name], language)
        tunables, params = candidate.tunables(), candidate.params()
        assert set(tunables) == set(params)
        assert all(params[k] in tunables[k] for k in params)
        assert set(structural_names(candidate.source)) <= set(tunables)
        assert {"cpp": "#include", "triton": "@triton.jit"}[language] in candidate.source


@pytest.mark.skipif(GXX is None or not X86, reason="needs g++ for x86")
@pytest.mark.parametrize("name", ["row_normalization", "softmax_cross_entropy"])
@pytest.mark.parametrize(("flag", "floats"), [("-mno-avx512f", 8), ("-mavx512f", 16)])
def test_vectors_are_as_wide_as_the_machine_has_them(name: str, flag: str, floats: int) -> None:
    """Wider ones pass through memory: 16 floats took up to 17 times as long as 8 on AVX2."""
    (kernel,) = SKILLS[name].files.values()
    source = kernel.partition("SOURCE = r'''")[2].partition("'''")[0]
    done = subprocess.run(
        [str(GXX), "-E", "-P", "-mavx2", flag, "-DVECTOR=16", "-x", "c++", "-"],
        input="\n".join(line for line in source.splitlines() if "#include" not in line),
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"typedef float vec __attribute__((vector_size({floats} * 4)));" in done.stdout


def check(source: str) -> dict[str, object]:
    """Valid Python, a class ModelNew or kernel, no mark of the template left, prototypes readable;
    BINDING returned."""
    tree = ast.parse(source)
    names = {s.name for s in tree.body if isinstance(s, (ast.ClassDef, ast.FunctionDef))}
    assert names & {"ModelNew", "kernel"}
    assert "ROLES" not in source
    assert not any(
        mark in source
        for mark in (
            "@BODY@",
            "@RUN@",
            "@SIGNATURE@",
            "@POINTERS@",
            "@FLUSH@",
            "@PREFETCH@",
            "@ALIGNED@",
        )
    )
    texts = [
        s.value.value
        for s in tree.body
        if isinstance(s, ast.Assign)
        and isinstance(s.value, ast.Constant)
        and "extern" in str(s.value.value)
    ]
    assert read_prototypes(texts[0])
    bound = [
        ast.literal_eval(s.value)
        for s in tree.body
        if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "BINDING"
    ]
    return bound[0] if bound else {}


def test_the_example_task_gets_one_sure_instantiation() -> None:
    (source,) = made("row_normalization", rmsnorm_task())
    assert check(source) == {
        "residual": 1,
        "weight": 1,
        "bias": 0,
        "centered": 0,
        "returns": "normalized,sum",
    }
    assert "return run(x=x, residual=residual, weight=self.weight, eps=self.eps)" in source
    assert "self.weight = nn.Parameter(1.0 + 0.1 * torch.randn(hidden))" in source


def test_layer_norm_of_a_submodule() -> None:
    sample = task(
        model("return self.norm(x)", "x", "self.norm = nn.LayerNorm(n)", "n"),
        [ROWS],
        [ROWS],
        ["aten.native_layer_norm.default"],
        ("norm.weight float32[1000]", "norm.bias float32[1000]"),
    )
    (source,) = made("row_normalization", sample)
    assert check(source)["centered"] == 1
    assert "run(x=x, weight=self.norm.weight, bias=self.norm.bias, eps=self.norm.eps)" in source


def test_the_sum_may_come_first_and_a_function_is_a_task() -> None:
    text = (
        "import torch\ndef reference(x, r, w):\n    s = x + r\n"
        "    return s, s * torch.rsqrt((s * s).mean(-1, keepdim=True) + 1e-5) * w\n"
        "def get_inputs():\n    return []\n"
    )
    sample = task(
        text,
        [ROWS, ROWS, spec("float32", 1000)],
        [ROWS, ROWS],
        ["aten.mean.dim", "aten.rsqrt.default"],
    )
    (source,) = made("row_normalization", sample)
    assert check(source)["returns"] == "sum,normalized"
    assert "def kernel(x, r, w):\n    return run(x=x, residual=r, weight=w, eps=1e-05)" in source


def test_an_unreadable_forward_gets_every_meaning() -> None:
    forward = (
        "for _ in range(1):; h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6); return h"
    )
    text = model(forward).replace("        h =", "            h =")
    found = made(
        "row_normalization", task(text, [ROWS], [ROWS], ["aten.mean.dim", "aten.rsqrt.default"])
    )
    assert [check(source)["centered"] for source in found] == [0, 1]


def test_an_input_without_a_role_refuses() -> None:
    text = model(
        "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * a * b * c", "x, a, b, c"
    )
    sample = task(text, [ROWS, ROWS, ROWS, ROWS], [ROWS], ["aten.mean.dim", "aten.rsqrt.default"])
    assert "has no role" in refused("row_normalization", sample)


@pytest.mark.parametrize(
    ("forward", "shape", "reduction"),
    [
        ("return F.cross_entropy(x, t)", (), "mean"),
        (
            (
                "'the sum of exponentials'; return -torch.log_softmax(x, -1).gather(1, "
                "t.unsqueeze(1)).squeeze(1).mean()"
            ),
            (),
            "mean",
        ),
        ("return F.cross_entropy(x, t, reduction='sum', ignore_index=7)", (), "sum"),
        ("return -torch.log_softmax(x, -1).gather(1, t.unsqueeze(1)).squeeze(1)", (64,), "none"),
    ],
)
def test_cross_entropy(forward: str, shape: tuple[int, ...], reduction: str) -> None:
    sample = task(
        model(forward, "x, t"),
        [ROWS, spec("int64", 64)],
        [spec("float32", *shape)],
        ["aten._log_softmax.default", "aten.nll_loss_forward.default"],
    )
    (source,) = made("softmax_cross_entropy", sample)
    assert check(source) == {"reduction": reduction}
    assert ("ignore_index=7" in source) == ("ignore_index" in forward)


def test_label_smoothing_refuses() -> None:
    sample = task(
        model("return F.cross_entropy(x, t, label_smoothing=0.1)", "x, t"),
        [ROWS, spec("int64", 64)],
        [spec("float32")],
        ["aten._log_softmax.default", "aten.nll_loss_forward.default"],
    )
    assert "label_smoothing" in refused("softmax_cross_entropy", sample)


def test_patterns_name_what_is_missing() -> None:
    sample = pointwise_task("return x @ x", (8, 8))
    assert "does not execute" in refused("row_normalization", sample)
    assert "written in cpp" in refused("row_normalization", rmsnorm_task(), language="triton")
    assert "for cpu" in refused("row_normalization", rmsnorm_task(), target="cuda")
    assert "aten.mean" in refused("fused_pointwise", rmsnorm_task())


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("return torch.relu(x)", "> 0.0f"),
        ("return F.gelu(x, approximate='tanh')", "k_gelu_tanh("),
        ("return x.sigmoid() * F.silu(x) + torch.tanh(x)", "k_sigmoid("),
        (
            "h = torch.clamp(x, min=-1, max=2); h += 1; return h.abs().sqrt()",
            "k_min(k_max(t0, (-1.0f)), 2.0f)",
        ),
        ("return torch.where(x > 0.5, x, torch.exp(x) - 1)", "? t0 :"),
        ("return torch.maximum(x, -x) / 3", "k_max("),
        ("return x ** 2 + x.pow(0.5) - torch.rsqrt(x)", "std::sqrt("),
        ("return F.leaky_relu(x, negative_slope=0.2) * math.sqrt(2.0)", "1.41421356f"),
    ],
)
def test_elementwise_chains_become_one_body(forward: str, expected: str) -> None:
    (source,) = made("fused_pointwise", pointwise_task(forward, (64, 1000)))
    check(source)
    assert expected in source


def test_broadcasting_scalars_and_modules() -> None:
    sample = pointwise_task(
        "return self.act((x + self.bias) * self.scale - y) * self.gain",
        (64, 1000),
        (64, 1),
        arguments="x, y",
        init=(
            "self.bias = nn.Parameter(torch.zeros(n)); self.act = nn.SiLU(); self.scale = 0.5; "
            "self.gain = gain"
        ),
        constructor="n, gain",
        parameters=("bias float32[1000]",),
    )
    (source,) = made("fused_pointwise", sample)
    check(source)
    assert "return run(x, self.bias, y, self.gain)" in source
    assert "a1 + c;" in source
    assert "a2 + r;" in source
    assert "0.5f" in source


def test_a_channel_bias_repeats_along_the_rows() -> None:
    sample = pointwise_task(
        "return torch.relu(x + self.bias)",
        (4, 8, 5, 5),
        init="self.bias = nn.Parameter(torch.zeros(n, 1, 1))",
        constructor="n",
        parameters=("bias float32[8, 1, 1]",),
    )
    (source,) = made("fused_pointwise", sample)
    assert "a1 + r % m1;" in source


@pytest.mark.parametrize(
    ("forward", "shapes", "reason"),
    [
        ("return torch.cumsum(x, 0)", ((8, 8),), "cumsum"),
        ("return x ** 2.7", ((8, 8),), "exponent"),
        ("if x.sum() > 0:; return x", ((8, 8),), "If statement"),
        ("return x + y", ((8, 4, 8), (8, 1, 8)), "middle dimension"),
        ("return F.softplus(x, beta=2)", ((8, 8),), "softplus"),
    ],
)
def test_what_cannot_be_fused_says_why(
    forward: str, shapes: tuple[tuple[int, ...], ...], reason: str
) -> None:
    text = forward.replace("if x.sum() > 0:; ", "if x.sum() > 0:;     ")
    assert reason in refused(
        "fused_pointwise",
        pointwise_task(text, *shapes, arguments="x, y" if len(shapes) > 1 else "x"),
    )


def test_other_dtypes_are_refused_by_the_pattern() -> None:
    sample = task(
        model("return torch.relu(x)"),
        [spec("float16", 8)],
        [spec("float16", 8)],
        ["aten.relu.default"],
    )
    assert "float16" in refused("fused_pointwise", sample)
    assert (
        "y0 = torch.empty_like(a0)" in made("triton_fused_pointwise", sample, "cuda", "triton")[0]
    )
    with_weight = task(
        model(
            "return torch.relu(x + self.bias)",
            "x",
            "self.bias = nn.Parameter(torch.zeros(8).half())",
        ),
        [spec("float32", 4, 8)],
        [spec("float32", 4, 8)],
        ["aten.relu.default"],
        ("bias float16[8]",),
    )
    assert "self.bias is float16" in refused("fused_pointwise", with_weight)


def test_the_language_chooses_among_the_skills_of_one_pattern() -> None:
    sample = rmsnorm_task()
    assert "for cuda, hip" in refused("triton_row_normalization", sample, "cpu", "triton")
    assert "written in triton" in refused("triton_row_normalization", sample, "cuda", "cpp")
    (source,) = made("triton_row_normalization", sample, "cuda", "triton")
    assert "return run(x=x, residual=residual, weight=self.weight, eps=self.eps)" in source


def test_an_output_of_another_dtype_than_the_inputs() -> None:
    rows = spec("float16", 64, 1000)
    text = model("return F.cross_entropy(x.float(), t)", "x, t")
    sample = task(
        text,
        [rows, spec("int64", 64)],
        [spec("float32")],
        ["aten._log_softmax.default", "aten.nll_loss_forward.default"],
    )
    (source,) = made("triton_softmax_cross_entropy", sample, "cuda", "triton")
    assert "'dtype': 'float32'" in source
    mixed = task(
        model("return x, x.sum(-1)"),
        [ROWS],
        [ROWS, spec("int64", 64)],
        ["aten.rsqrt.default", "aten.mean.dim"],
    )
    assert "differ in dtype" in refused("triton_row_normalization", mixed, "cuda", "triton")


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("return (x.float() * 2).to(x.dtype)", "t2 = (t1 * 2.0)"),
        ("return x.to(torch.float16)", "other than float32"),
        ("return torch.where(x > 0, x, -1.0)", "tl.where((t0 > 0.0), t0, (-1.0))"),
        ("return x ** -2", "(1.0 / (t0 * t0))"),
    ],
)
def test_elementwise_bodies_in_triton(forward: str, expected: str) -> None:
    half = spec("float16", 64, 1000)
    result = instantiate(
        SKILLS["triton_fused_pointwise"],
        task(model(forward), [half], [half], ["aten.mul.Tensor"]),
        "cuda",
        "triton",
    )
    assert expected in (result.found[0].candidate.source if result.found else result.reason)


def test_a_constructor_that_needs_the_module_is_refused_with_the_name() -> None:
    program = Program.parse(model("return x", "x", "self.f = helper(3)", "n"))
    with pytest.raises(NotReadable, match="helper"):
        program.wrapped("run(x)")


def test_super_with_the_class_name_is_renamed() -> None:
    text = model("return x", "x", "self.n = n", "n").replace(
        "super().__init__()", "super(Model, self).__init__()"
    )
    assert "super(ModelNew, self).__init__()" in Program.parse(text).wrapped("run(x)")
