"""Packages used as their kernel was not measured: each call is right, by whichever way it goes, or
raises an error that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.types import Case
from kevolve_mcp.export import ExportResult, export_package

from .conftest import Run
from .samples import sample, spec

HEAD = "import torch\nimport torch.nn as nn\n"
NATIVE = f"{HEAD}from harness.native import load_cpp\n"
CASES = """
CASES = {"small": {"rows": 8}, "large": {"rows": 64}, "hidden": {"rows": 24}}

def get_inputs(rows=8):
    return [torch.randn(rows, 64)]
"""
LAYER = (
    f"""{HEAD}{CASES}
class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.register_buffer("table", torch.arange(width) / width, persistent=False)

    def forward(self, x):
        return x * torch.tanh(self.weight) * self.table

class Model(nn.Module):
    def __init__(self, offset, width):
        super().__init__()
        self.scale, self.act, self.offset = Scale(width), nn.ReLU(), offset
        self.gain, self.options = 1.0, {{"keep": [1.0]}}

    def train(self, mode=True):
        self.gain = 1.0 if mode else 0.5
        return super().train(mode)

    def forward(self, x):
        keep = self.options["keep"][0]
        return self.scale(self.act(self.helped(x) + self.offset)) * self.gain * keep

    def helped(self, x):
        return x

def get_init_inputs():
    return [torch.arange(64) / 64.0, 64]
""",
    f"""{NATIVE}
_lib = load_cpp(r'''
#include <cstdint>
extern "C" void go(const float* x, const float* w, float* y, int64_t rows) {{
  for (int64_t r = 0; r < rows / 4 * 4; ++r)  // wrong where rows are left over
    for (int64_t c = 0; c < 64; ++c) {{
      float v = x[r * 64 + c] + c / 64.0f;
      y[r * 64 + c] = (v > 0 ? v : 0) * w[c];
    }}
}}
''')
CALLS = []
MEANWHILE = []  # what happens in the middle of a call

class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.seen = self.packed = None

class ModelNew(nn.Module):
    def __init__(self, offset, width):
        super().__init__()
        self.scale = Scale(width)
        self.scratch = torch.empty(64, width)

    def forward(self, x):
        CALLS.append(1)
        w = self.scale.weight
        if self.scale.seen != (w.data_ptr(), w._version):
            self.scale.seen = w.data_ptr(), w._version
            self.scale.packed = torch.tanh(w).detach() * (torch.arange(64) / 64)
        scratch = self.scratch[:len(x)].copy_(x)
        for each in MEANWHILE:
            each()
        y = torch.zeros_like(x)
        _lib.go(scratch, self.scale.packed, y, len(x))
        return y
""",
)
NORM = (
    f"""{HEAD}{CASES}
GRADIENTS = True

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(64)

    def forward(self, x):
        return torch.sin(self.norm(x))

def get_init_inputs():
    return []
""",
    f"""{NATIVE}
_lib = load_cpp(r'''
#include <cstdint>
#include <cmath>
extern "C" void go(const float* x, const float* w, const float* b, float* rm, float* rv, float* y,
                   float* mean, float* rstd, int64_t rows) {{
  for (int64_t c = 0; c < 64; ++c) {{
    double m = 0, v = 0;
    for (int64_t r = 0; r < rows; ++r) m += x[r * 64 + c];
    m /= rows;
    for (int64_t r = 0; r < rows; ++r) {{ double d = x[r * 64 + c] - m; v += d * d; }}
    mean[c] = m; rstd[c] = 1 / std::sqrt(v / rows + 1e-5);
    rm[c] = 0.9f * rm[c] + 0.1f * (float)m;
    rv[c] = 0.9f * rv[c] + 0.1f * (float)(v / (rows - 1));
    for (int64_t r = 0; r < rows; ++r)
      y[r * 64 + c] = std::sin((float)((x[r * 64 + c] - m) * rstd[c]) * w[c] + b[c]);
  }}
}}
''')
CALLS = []

class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, norm):
        CALLS.append(1)
        y, mean, rstd = torch.empty_like(x), torch.empty(64), torch.empty(64)
        _lib.go(x, w, b, norm.running_mean, norm.running_var, y, mean, rstd, len(x))
        with torch.no_grad():
            norm.num_batches_tracked = norm.num_batches_tracked + 1  # anew, and in place elsewhere
        ctx.save_for_backward(x, w, b, mean, rstd)
        return y if any(ctx.needs_input_grad) else torch.zeros_like(y)  # wrong without gradients

    @staticmethod
    def backward(ctx, g):
        x, w, b, mean, rstd = ctx.saved_tensors  # its own gradient takes mean and rstd as given
        xh, n = (x - mean) * rstd, len(x)
        g = g * torch.cos(xh * w + b)
        gh = g * w
        gx = rstd * (gh - gh.mean(0) - xh * (gh * xh).mean(0))
        if not ctx.needs_input_grad[1]:
            return torch.zeros_like(gx), None, None, None  # wrong for a part
        return gx, (g * xh).sum(0), g.sum(0), None

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(64)

    def forward(self, x):
        return Function.apply(x, self.norm.weight, self.norm.bias, self.norm)
""",
)
LISTED = (
    f"""{HEAD}{CASES}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64))
        self.all = [self.weight]

    def forward(self, x):
        return x * self.all[0]

def get_init_inputs():
    return []
""",
    f"""{HEAD}
CALLS = []

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(64))

    def forward(self, x):
        CALLS.append(1)
        return x * self.weight
""",
)
CHECK = """
import contextlib, copy, importlib, pickle, threading, time, warnings
import torch
import torch.nn as nn
torch.manual_seed(1)
WRONG = []

def made(name):
    package = importlib.import_module(name)
    init = package.case_init("small")[0]
    model, reference = package.KernelModule(*init), package.modules.Reference(*init)
    reference.load_state_dict(model.state_dict())
    return package, model, reference

def both(change, *models):
    for model in models:
        change(model)

def like(ours, theirs, atol=1e-5):
    return torch.allclose(ours, theirs, atol=atol, rtol=1e-4)

def check(what, holds):
    if not holds:
        WRONG.append(what)

@contextlib.contextmanager
def told(what, text):
    "One warning is given, with this in it; none where it is empty."
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield
    texts = [str(w.message) for w in heard if "the reference" in str(w.message)]
    check(f"{what}: said was {texts}", len(texts) == bool(text) and all(text in t for t in texts))

def right(what, model, reference, *, kernel=False, says="", rows=8, package="layer"):
    "Calls agree with the reference, and the kernel computes the last of them or does not."
    used = sys.modules[package + ".kernel"].CALLS
    with told(what, says), torch.no_grad():
        for _ in range(2):
            x = torch.randn(rows, 64)
            used.clear()
            check(what, like(model(x), reference(x)))
    check(f"{what}: {len(used)} calls of the kernel", bool(used) is kernel)
"""
CHECKED = "\nassert not WRONG, WRONG\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("not_measured")
    cases = tuple(
        Case(
            name,
            held_out=name == "hidden",
            arguments={"rows": rows},
            inputs=(spec("float32", rows, 64),),
        )
        for name, rows in (("small", 8), ("large", 64), ("hidden", 24))
    )
    for name, (task, kernel), gradients in (
        ("layer", LAYER, False),
        ("norm", NORM, True),
        ("listed", LISTED, False),
    ):
        verdicts = {case.name: "faster" for case in cases}
        one = sample(name, task, kernel, cases, verdicts, gradients=gradients)
        export_package(
            home / name, task=one.task, candidate=one.candidate, evaluation=one.evaluation
        )
    return home


def test_modules_that_are_not_as_they_were_constructed(home: Path, run_python: Run) -> None:
    script = """
import torch.nn.utils.parametrize as parametrize, torch.nn.utils.prune as prune

class Wrapped(nn.Module):  # as adapters wrap a layer
    def __init__(self, base):
        super().__init__()
        self.base, self.more = base, nn.Parameter(torch.ones(64))
    weight = property(lambda self: self.base.weight)
    table = property(lambda self: self.base.table)
    def forward(self, x):
        return self.base(x) + x * self.more

class Double(nn.Module):
    def forward(self, w):
        return w * 2

def changed(what, change, says):
    package, model, reference = made("layer")
    right(what + ", before", model, reference, kernel=True)
    with torch.no_grad():
        both(change, model, reference)
        right(what, model, reference, says=says)
        right(what + ", a copy", copy.deepcopy(model), reference, says=says)
    return model, reference

back = changed("an attribute", lambda m: setattr(m, "gain", 2.0), "`gain`")
both(lambda m: setattr(m, "gain", 1.0), *back)
right("an attribute as it was", *back, kernel=True)
changed("in a list in a dict", lambda m: m.options["keep"].__setitem__(0, 3.0), "`options`")
changed("a tensor", lambda m: setattr(m, "offset", torch.ones(64)), "`offset`")
changed("a tensor in place", lambda m: m.offset.add_(1), "`offset`")
changed("a buffer that the kernel lacks", lambda m: m.scale.table.mul_(2), "`scale.table`")
changed("a part", lambda m: setattr(m, "act", nn.Tanh()), "`act`")
changed("a wrapped part", lambda m: setattr(m, "scale", Wrapped(m.scale)), "`scale`")
changed("a hook", lambda m: m.act.register_forward_hook(lambda _, x, y: y + 1), "`act`")
changed("pruned", lambda m: prune.l1_unstructured(m.scale, "weight", 0.5), "`scale`")
changed("parametrized", lambda m: parametrize.register_parametrization(m.scale, "weight", Double()),
        "`scale`")
changed("a train() of its own", lambda m: m.eval(), "`gain`")

package, model, reference = made("layer")
class Helped(package.KernelModule):
    def helped(self, x):
        return 2 * x
class HelpedReference(package.modules.Reference):
    helped = Helped.helped
init = package.case_init("small")[0]
subclass, like_it = Helped(*init), HelpedReference(*init)
like_it.load_state_dict(subclass.state_dict())
right("a subclass", subclass, like_it, says="`helped`")
others = [kind(torch.randn(64, generator=torch.Generator().manual_seed(1)), 64)
          for kind in (package.KernelModule, package.modules.Reference)]
others[1].load_state_dict(others[0].state_dict())
right("another tensor in the constructor", *others)

right("as it was", model, reference, kernel=True)
for one in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)):
    right("a copy of it", one, reference, kernel=True)
right("moved", model.to("cpu"), reference, kernel=True)
both(lambda m: m.half().float(), model, reference)
right("rounded", model, reference, says="`scale.table`")
"""
    run_python(home, CHECK + script + CHECKED)


def test_other_parameters_and_other_threads(home: Path, run_python: Run) -> None:
    script = """
package, model, reference = made("layer")
kernel, init = sys.modules["layer.kernel"], package.case_init("small")[0]
right("its own", model, reference, kernel=True)
ways = {
    "functional_call": lambda state, x: torch.func.functional_call(model, state, (x,)),
    "functional": lambda state, x: package.functional(
        x, init=init, state={"scale.table": reference.scale.table, **state}
    ),
}
for way, call in ways.items():
    for turn in range(20):  # tensors that lie where others did
        state = {"scale.weight": torch.randn(64) if turn < 10 else torch.randn(68)[4:]}
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = torch.randn(8, 64)
            y = torch.func.functional_call(reference, state, (x,))
            check(f"{way} {turn}", like(call(state, x), y))
        del state, x, y
right("its own again", model, reference, kernel=True)
both(lambda m: setattr(m.scale, "weight", nn.Parameter(torch.ones(64))), model, reference)
right("one that took its place", model, reference, kernel=True)
package, kept, like_it = made("listed")
with torch.no_grad():
    both(lambda m: m.weight.mul_(2), kept, like_it)
right("one in a list", kept, like_it, kernel=True, package="listed")
both(lambda m: setattr(m, "weight", nn.Parameter(torch.ones(64))), kept, like_it)
right("one that is in the list alone", kept, like_it, says="`all`", package="listed")

wrong, inside = [], []
def meanwhile():
    inside.append(threading.get_ident())
    time.sleep(0.05)
def work(seed):
    with torch.no_grad():
        x = torch.randn(8, 64, generator=torch.Generator().manual_seed(seed))
        for _ in range(3):
            if not like(model(x), reference(x)):
                wrong.append(seed)
kernel.MEANWHILE.append(meanwhile)
threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
[t.start() for t in threads]
[t.join() for t in threads]
kernel.MEANWHILE.clear()
check("one call amid another", not wrong)
check("both threads use the kernel", len(set(inside)) == 2)

package, model, reference = made("norm")
used = sys.modules["norm.kernel"].CALLS
def trains():
    used.clear()
    x = torch.randn(8, 64)
    leaves = [x.clone().requires_grad_() for _ in range(2)]
    for m, leaf in zip((model, reference), leaves):
        m(leaf).square().sum().backward()
    return like(leaves[0].grad, leaves[1].grad, 1e-4)
check("training", trains() and used)
answers = []
thread = threading.Thread(target=lambda: answers.append(trains()))
with told("training in two threads", "another thread"):
    thread.start()
    thread.join()
check("training in two threads", answers == [True] and not used)
"""
    run_python(home, CHECK + script + CHECKED)


def test_updated_buffers_and_other_gradients(home: Path, run_python: Run) -> None:
    script = """
used = importlib.import_module("norm") and sys.modules["norm.kernel"].CALLS

def step(model, x, wanted):
    leaf = x.clone().requires_grad_(wanted)
    model.zero_grad()
    y = model(leaf)
    (y * torch.arange(64.0)).sum().backward()
    return [t for t in (y.detach(), leaf.grad, model.norm.weight.grad, model.norm.bias.grad)
            if t is not None]

def trained(what, *, kernel, rows=8, wanted=True, change=lambda m: None, says="", **options):
    package, model, reference = made("norm")
    both(change, model, reference)
    called = torch.compile(model, **options) if options else model
    for _ in range(2):
        x = torch.randn(rows, 64) + 3
        used.clear()
        with told(what, says):
            ours = step(called if not options else Called(called, model), x, wanted)
        says = ""
        for one, other in zip(ours, step(reference, x, wanted)):
            check(f"{what}: values", like(one, other, 1e-3))
    check(f"{what}: {len(used)} calls of the kernel", bool(used) is kernel)
    for name, other in reference.state_dict().items():
        check(f"{what}: {name}", like(model.state_dict()[name].double(), other.double()))

class Called:  # a compiled module, with the parts of the module itself
    def __init__(self, called, model):
        self.called, self.norm, self.zero_grad = called, model.norm, model.zero_grad
    def __call__(self, x):
        return self.called(x)

trained("as measured", kernel=True)
trained("a shape between", kernel=True, rows=40)
trained("inputs without gradients", kernel=True, wanted=False)
trained("compiled", kernel=False, fullgraph=True, backend="aot_eager")
trained("a buffer amid a line", kernel=False, says="`norm.running_mean`",
        change=lambda m: setattr(m.norm, "running_mean", torch.zeros(68)[4:]))
trained("gradients for a part", kernel=False, says="disagrees",
        change=lambda m: m.norm.weight.requires_grad_(False))
package, model, reference = made("norm")
right("no gradients", model, reference, says="disagrees", package="norm")
check("no gradients: buffers", all(map(like, model.buffers(), reference.buffers())))
both(lambda m: m.eval(), model, reference)
right("eval()", model, reference, says="mode", package="norm")

package, model, reference = made("norm")
x = torch.randn(8, 64).requires_grad_()
try:
    torch.autograd.grad(model(x).sum(), x, create_graph=True)
    check("create_graph", False)
except RuntimeError as error:
    check("create_graph", "kernel_route = 'reference'" in str(error))
model.kernel_route = "reference"
check("as it says", torch.autograd.grad(model(x).sum(), x, create_graph=True)[0].requires_grad)

import torch.autograd.forward_ad as forward_ad
package, model, reference = made("layer")
both(lambda m: m.requires_grad_(False), model, reference)
x = torch.randn(8, 64)
right("before", model, reference, kernel=True)
with forward_ad.dual_level():
    ours, theirs = (forward_ad.unpack_dual(m(forward_ad.make_dual(x, x.cos()))).tangent
                    for m in (model, reference))
check("forward-mode", ours is not None and like(ours, theirs))
check("jvp", like(*(torch.func.jvp(m, (x,), (x.cos(),))[1] for m in (model, reference))))
check("vmap", like(*(torch.func.vmap(m)(torch.stack([x, -x])) for m in (model, reference))))
check("traced", like(torch.jit.trace(model, (x,), check_trace=False)(-x), reference(-x)))
"""
    run_python(home, CHECK + script + CHECKED)


def test_an_agreement_on_zeros_is_none(home: Path, run_python: Run) -> None:
    script = """
low, high = torch.full((1, 64), -9.0), torch.ones(12, 64)
package, model, reference = made("layer")
with torch.no_grad():
    for nothing in (low.expand(13, 64).clone(), torch.cat([high, low])):
        model(nothing), model(nothing)
right("after calls that showed nothing", model, reference, rows=13, says="disagrees")
package, model, reference = made("layer")
with torch.no_grad(), told("tries have an end", "cannot be compared"):
    for _ in range(20):
        model(low.expand(12, 64).clone())
"""
    run_python(home, CHECK + script + CHECKED)


def test_compiled_programs_notice(packages: dict[str, ExportResult], run_python: Run) -> None:
    script = """
import scale_norm, mixed
used = sys.modules["scale_norm.kernel"].CALLS
model, reference = (m(32).requires_grad_(False)
                    for m in (scale_norm.KernelModule, scale_norm.modules.Reference))
reference.load_state_dict(model.state_dict())
program = torch.compile(model, fullgraph=True, backend="aot_eager")

def runs(what, *, kernel=False, change=None):
    if change:
        both(change, model, reference)
    for _ in range(2):
        x = torch.randn(4, 32)
        used.clear()
        check(what, like(program(x), reference(x)))
    check(f"{what}: {len(used)} calls of the kernel", bool(used) is kernel)

runs("as it was", kernel=True)
runs("an attribute", change=lambda m: setattr(m, "eps", 3.0))
runs("an attribute as it was", kernel=True, change=lambda m: setattr(m, "eps", 1e-6))
runs("a new parameter", kernel=True,
     change=lambda m: setattr(m, "weight", nn.Parameter(torch.ones(32), requires_grad=False)))
runs("amid a line", change=lambda m: setattr(m, "shift", torch.ones(36)[4:]))

@torch.compile(fullgraph=True, backend="aot_eager")
def derived(x, weight):
    state = {"weight": weight * 2, "shift": weight + 1}
    return scale_norm.functional(x, init=(32,), state=state)
scale_norm.functional(torch.ones(1, 32), init=(32,), state=model.state_dict())
for turn in range(5):
    x, weight = torch.randn(4, 32), torch.randn(32)
    state = {"weight": weight * 2, "shift": weight + 1}
    y = torch.func.functional_call(reference, state, (x,))
    check(f"computed parameters {turn}", like(derived(x, weight), y))
"""
    run_python(packages["scale_norm"].path.parent, CHECK + script + CHECKED)
