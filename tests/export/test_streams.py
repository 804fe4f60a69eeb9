"""What a package for a GPU does about streams and CUDA graphs, with streams that only note what is
asked of them."""

from __future__ import annotations

from kevolve_mcp.export import ExportResult

from .conftest import Run

FAKES = """
import contextlib, warnings
import torch
import scale_norm, double_it

class Stream:
    current, recording, waits = None, set(), []
    def __init__(self, name):
        self.name = name
    def wait_stream(self, other):
        Stream.waits.append((self.name, other.name))

@contextlib.contextmanager
def on(stream):
    before, Stream.current = Stream.current, stream
    yield
    Stream.current = before

first, second, third = map(Stream, ("first", "second", "third"))
Stream.current = first
torch.cuda.current_device = lambda: 0
torch.cuda.is_available = lambda: True
torch.cuda.current_stream = lambda device: Stream.current
torch.cuda.stream = on
for package in (scale_norm, double_it):
    streams = sys.modules[package.__name__ + ".streams"]
    streams._raw_stream = lambda device: id(Stream.current)
    streams._captures = lambda: Stream.current in Stream.recording

def on_gpu(model):
    "As if its tensors were there."
    instance = model._kevolve.instance
    instance._on_gpu, instance.has_run = True, False
    return model

def waited(call):
    Stream.waits.clear()
    call()
    return list(Stream.waits)
"""


def test_a_stream_waits_for_that_of_the_call_before(
    packages: dict[str, ExportResult], run_python: Run
) -> None:
    script = """
model, x = on_gpu(scale_norm.KernelModule(32).requires_grad_(False)), torch.randn(4, 32)
other = on_gpu(scale_norm.KernelModule(32).requires_grad_(False))
def call(stream, model=model):
    with on(stream):
        return waited(lambda: model(x))
assert call(first) == call(first) == []
assert call(second) == [("second", "first")]
assert call(second) == []
assert call(first, other) == [("first", "second")]  # kernels share what their text keeps

model(x), other(x)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    Stream.recording = {third}
    assert call(third) == []  # nobody waits while a graph is recorded
    Stream.recording = {first}
    assert call(second) == []  # nor for a stream that is being recorded
    Stream.recording = set()
assert call(second) == [] and call(first) == [("first", "second")]
"""
    run_python(packages["scale_norm"].path.parent, FAKES + script)


def test_calls_that_become_a_part_of_a_graph(
    packages: dict[str, ExportResult], run_python: Run
) -> None:
    script = """
def recorded(model, *args):
    "What is said while a graph is recorded, and whether the kernel becomes a part of it."
    calls = sys.modules[type(model).__module__.partition(".")[0] + ".instance"].CALLS
    before, Stream.recording = calls[0], {third}
    with warnings.catch_warnings(record=True) as heard, on(third), torch.no_grad():
        warnings.simplefilter("always")
        model(*args)
    Stream.recording = set()
    return [str(w.message) for w in heard], calls[0] > before

model, x = on_gpu(scale_norm.KernelModule(32)), torch.randn(4, 32)
said, by_kernel = recorded(model, x)
assert len(said) == 1 and "call the module once before" in said[0] and not by_kernel
assert recorded(model, x) == ([], False)
with torch.no_grad():
    model(x)
said, by_kernel = recorded(model, x)
assert len(said) == 1 and "capture again after loading or training" in said[0] and by_kernel
assert recorded(model, x) == ([], True)

plain, x = on_gpu(double_it.KernelModule()), torch.randn(3, 7)
plain(x, 2)
assert recorded(plain, x, 2) == ([], True)  # it has no weights
"""
    run_python(packages["scale_norm"].path.parent, FAKES + script)
