"""Backward passes of packages in other ways than the evaluator makes them: each gives the
reference's gradients or raises an error that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.types import Case
from kevolve_mcp.export import export_package

from .conftest import Run
from .samples import sample, spec
from .test_not_measured import CASES, CHECK, CHECKED, HEAD, NATIVE

INIT = """
def get_init_inputs():
    return []
"""
MODULE = """
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(64))

    def forward(self, x):
        return given(Function.apply(x, self.weight))
"""
PAIR = (
    f"""{HEAD}{CASES}{INIT}
GRADIENTS = True

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64))

    def forward(self, x):
        return torch.sin(x) * self.weight, (x * x).view(-1, 64)
""",
    f"""{NATIVE}
_lib = load_cpp(r'''
#include <cstdint>
#include <cmath>
extern "C" void back(const float* x, const float* w, const float* gy, const float* gz, float* gx,
                     float* gw, int64_t rows) {{
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < 64; ++c) {{
      int64_t i = r * 64 + c;
      gx[i] = std::cos(x[i]) * w[c] * gy[i] + 2 * x[i] * gz[i];
      gw[c] += std::sin(x[i]) * gy[i];
    }}
}}
''')
CALLS = []

class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        CALLS.append(1)
        ctx.save_for_backward(x, w)
        ctx.set_materialize_grads(False)
        return torch.sin(x) * w, x * x

    @staticmethod
    def backward(ctx, gy, gz):
        x, w = ctx.saved_tensors
        gx, gw = torch.empty_like(x), torch.zeros_like(w)
        if gy.data_ptr() % 64 or gz.data_ptr() % 64:
            return gx.fill_(-1), gw
        _lib.back(x, w, gy.data_ptr(), gz.data_ptr(), gx, gw, len(x))  # as contiguous memory
        return gx, gw

def given(results):
    y, z = results
    return y, z.view(-1, 64)
{MODULE}""",
)
SINGLE = f"""{HEAD}{CASES}{INIT}
GRADIENTS = True

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64))

    def forward(self, x):
        return torch.sin(x) * self.weight
"""


def single(forward: str, backward: str) -> tuple[str, str]:
    """A kernel of SINGLE: what forward keeps, and from where backward takes x and w."""
    kernel = f"""{HEAD}
CALLS = []
KEPT = torch.empty(64, 64)

class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        CALLS.append(1)
        y = torch.sin(x) * w
        {forward}
        return y

    @staticmethod
    def backward(ctx, g):
        {backward}
        sine = ctx.y / w if hasattr(ctx, "y") else torch.sin(x)
        gx, gw = g * w * torch.cos(x), (g * sine).sum(0)
        ctx.after() if hasattr(ctx, "after") else None
        return gx, gw

def given(result):
    return result
{MODULE}"""
    return SINGLE, kernel


SAVED = single("ctx.save_for_backward(x, w)", "x, w = ctx.saved_tensors")
KEPT = single(
    "ctx.save_for_backward(w); KEPT[:len(x)] = x", "(w,) = ctx.saved_tensors; x = KEPT[:len(g)]"
)
USED_UP = single(
    "ctx.save_for_backward(w); ctx.x = x.clone(); ctx.after = ctx.x.zero_",
    "(w,) = ctx.saved_tensors; x = ctx.x",
)
OF_W = single("ctx.save_for_backward(x); ctx.w = w", "(x,) = ctx.saved_tensors; w = ctx.w.detach()")
OF_X = single("ctx.save_for_backward(w); ctx.x = x", "(w,) = ctx.saved_tensors; x = ctx.x.detach()")
OF_Y = single("ctx.save_for_backward(x, w); ctx.y = y.detach()", "x, w = ctx.saved_tensors")
VIEW_OF_Y = SINGLE, OF_Y[1].replace("return result\n", "return result.view(-1, 64)\n")
SAVED_Y = single("ctx.save_for_backward(x, w, y)", "x, w, ctx.y = ctx.saved_tensors")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("backward_passes")
    cases = tuple(
        Case(
            name,
            held_out=name == "hidden",
            arguments={"rows": rows},
            inputs=(spec("float32", rows, 64),),
        )
        for name, rows in (("small", 8), ("large", 64), ("hidden", 24))
    )
    packages = {"pair": PAIR, "saved": SAVED, "kept": KEPT, "used_up": USED_UP}
    packages |= {"of_w": OF_W, "of_x": OF_X, "of_y": OF_Y, "view_of_y": VIEW_OF_Y}
    packages["saved_y"] = SAVED_Y
    for name, (task, kernel) in packages.items():
        verdicts = {case.name: "faster" for case in cases}
        one = sample(name, task, kernel, cases, verdicts, gradients=True)
        export_package(
            home / name, task=one.task, candidate=one.candidate, evaluation=one.evaluation
        )
    return home


def test_upstream_gradients_of_any_layout(home: Path, run_python: Run) -> None:
    script = """
wide, complex_one = torch.randn(8, 128), torch.randn(8, 64, dtype=torch.cfloat)
ones, turned = torch.ones(8, 64), torch.arange(512.0).view(64, 8)
flat = torch.randn(1029)
passes = torch.autograd.backward
ways = {
    "dense": lambda y, z: passes([y, z], [wide[:, :64].clone(), wide[:, 64:].clone()]),
    "a sum": lambda y, z: (y.sum() + z.sum()).backward(),
    "transposed": lambda y, z: passes([y.t(), z], [turned, ones]),
    "slices": lambda y, z: passes([y, z], [wide[:, ::2], wide[:, 1::2]]),
    "one for both": lambda y, z: passes([y, z], [wide[:, ::2]] * 2),
    "amid a line": lambda y, z: torch.cat([y.flatten(), z.flatten()[:507]]).dot(
        flat[:1019]).backward(),
    "the first alone": lambda y, z: (y * 3).sum().backward(),
    "the second alone": lambda y, z: (z * wide[:, :64]).sum().backward(),
    "used twice": lambda y, z: (y.sum() * 2 + (y * y).mean() + z.sum()).backward(),
    "a hook's": lambda y, z: (
        y.register_hook(lambda g: g.t().contiguous().t() * 2), (y + z).sum().backward()),
    "kept": lambda y, z: (y.retain_grad(), (y + z).sum().backward()),
    "two passes": lambda y, z: (
        (y + z).sum().backward(retain_graph=True), (y * z.detach() + z).sum().backward()),
    "negated": lambda y, z: passes([y, z], [torch._neg_view(wide[:, :64].clone()), ones]),
    "a part of a complex one": lambda y, z: passes([y, z], [complex_one.conj().imag, ones]),
    "in place": lambda y, z: (y.relu_().sum() + z.sum()).backward(),
}
package, model, reference = made("pair")
used = sys.modules["pair.kernel"].CALLS

def slopes(call, module, x, way):
    leaf = x.clone().requires_grad_()
    module.weight.grad = torch.zeros(64)
    way(*call(leaf))
    return leaf.grad, module.weight.grad

def forced(x):
    model.kernel_route = "kernel"
    try:
        return model(x)
    finally:
        model.kernel_route = "auto"

calls = {
    "direct": model,
    "the kernel's route": forced,
    "functional": lambda x: package.functional(x, state=dict(model.named_parameters())),
    "compiled": torch.compile(model, fullgraph=True, backend="aot_eager"),
}
for call in calls:
    for _ in range(2):  # a kernel is for parameters that come again
        slopes(calls[call], model, torch.randn(8, 64), ways["dense"])
    for way in ways:
        for _ in range(2):
            x = torch.randn(8, 64)
            theirs = slopes(reference, reference, x, ways[way])
            used.clear()
            ours = slopes(calls[call], model, x, ways[way])
            check(f"{call}, {way}: kernel", used)
            check(f"{call}, {way}", all(like(a, b, 1e-4) for a, b in zip(ours, theirs)))

def refused(what, way, text):
    x = torch.randn(8, 64).requires_grad_()
    try:
        way(x, *model(x))
        check(what, False)
    except RuntimeError as error:
        check(f"{what}: {error}", text in str(error) and "kernel_route = 'reference'" in str(error))

def in_batches(x, y, z):
    torch.autograd.grad(y, x, torch.randn(3, 8, 64), is_grads_batched=True)

def sparse(x, y, z):
    torch.nn.functional.embedding(torch.tensor([1, 2, 2]), y, sparse=True).sum().backward()

refused("in batches", in_batches, "in batches")
refused("sparse", sparse, "sparse")
refused("create_graph", lambda x, y, z: torch.autograd.grad(y.sum(), x, create_graph=True),
        "create_graph")
"""
    run_python(home, CHECK + script + CHECKED)


def test_backward_passes_that_come_later(home: Path, run_python: Run) -> None:
    script = """
def outcome(what, name, way, wanted):
    "'right', 'refused', or 'refused by torch' as wanted."
    package, model, reference = made(name)
    used, x, found = sys.modules[name + ".kernel"].CALLS, torch.randn(8, 64), []
    used.clear()
    try:
        for m in (reference, model):
            called = once if m is reference and way is input_changed else way  # torch refuses it
            leaf = x.clone().requires_grad_()
            m.zero_grad()
            said = ""
            try:
                called(m, leaf)
            except RuntimeError as error:
                said = str(error)
            found.append((leaf.grad, m.weight.grad, said))
    finally:
        (gx, gw, theirs), (hx, hw, ours) = found
    check(f"{what}, {name}: kernel", used)
    if ours:
        by_us = "kernel_route = 'reference'" in ours
        got = "refused" if by_us else "refused by torch"
    else:
        got = "right" if like(gx, hx, 1e-4) and like(gw, hw, 1e-4) else "wrong"
    check(f"{what}, {name}: {got} {ours}", got == wanted)

def once(m, x):
    m(x).square().sum().backward()

def after_another(m, x):
    y = m(x)
    with torch.no_grad():
        m(torch.ones(8, 64))
    y.square().sum().backward()

def two_layers(m, x):
    m(m(x)).square().sum().backward()

def again(m, x):
    y = m(x).square().sum()
    y.backward(retain_graph=True)
    y.backward()

def weight_changed(m, x):
    y = m(x).square().sum()
    with torch.no_grad():
        m.weight.add_(1)
    y.backward()

def input_changed(m, x):
    x = x * 1
    y = m(x).square().sum()
    x.detach().add_(1)
    y.backward()

def batch_refilled(m, x):
    x.grad = torch.zeros_like(x)
    batch = x.detach().clone()
    y = m(batch.view(8, 64)).square().sum()
    batch.normal_()
    y.backward()

def result_changed(m, x):
    y = m(x)
    y += 1
    loss = y.square().sum()
    del y
    loss.backward()

def result_bent(m, x):
    torch.relu_(m(x).view(-1).sub_(0.1)).sum().backward()

by_torch = "refused by torch"
wanted = {
    "saved": (*["right"] * 4, *[by_torch] * 3, *["right"] * 2),
    "kept": ("right", *["refused"] * 3, by_torch, *["right"] * 4),
    "used_up": ("right", *["refused"] * 3, by_torch, *["right"] * 4),
    "of_w": (*["right"] * 4, "refused", *[by_torch] * 2, *["right"] * 2),
    "of_x": (*["right"] * 4, by_torch, *["refused"] * 2, *["right"] * 2),
    "of_y": (*["right"] * 4, *[by_torch] * 3, *["refused"] * 2),
    "view_of_y": (*["right"] * 4, *[by_torch] * 3, *["refused"] * 2),
    "saved_y": (*["right"] * 4, *[by_torch] * 3, *["refused"] * 2),
}
ways = (once, after_another, two_layers, again, weight_changed, input_changed, batch_refilled,
        result_changed, result_bent)
for name, results in wanted.items():
    for way, result in zip(ways, results):
        outcome(way.__name__, name, way, result)
"""
    run_python(home, CHECK + script + CHECKED)
