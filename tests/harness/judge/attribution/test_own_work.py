"""Who does the work is measured: kernels that contribute nothing, and work that is done beside
them, need a review."""

from __future__ import annotations

import re

import pytest

from harness.judge.attribution import own_work
from harness.native import find_compiler
from harness.targets import cpu, cuda
from kevolve_mcp.executors.testing import OpenJudge
from tests.harness.conftest import CANDIDATES, Bench

KERNEL = "_lib.rows(x, self.weight, y, x.shape[0], x.shape[1])"
BODY = f"        {KERNEL}\n        return y\n"

DECOY = f"""        {KERNEL}
        import numpy
        a, w = x.numpy(), self.weight.detach().numpy()
        y.numpy()[:] = numpy.tanh(a) * w + a.sum(-1, keepdims=True, dtype=numpy.float64).astype(numpy.float32)
        return y
"""  # noqa: E501
BESIDE = """        _lib.rows(x[:1], self.weight, y[:1], 1, x.shape[1])
        import math
        weight = self.weight.tolist()
        for row in range(1, x.shape[0]):
            values = x[row].tolist()
            total = [sum(v for v in values) for _ in range(20)][0]  # long on any machine
            y[row] = torch.tensor([math.tanh(v) * w + total for v, w in zip(values, weight)])
        return y
"""


@pytest.fixture(scope="module")
def bench(judge: OpenJudge) -> Bench:
    """With one case of the small task, and its baselines: else each evaluation would compile them
    for each case."""
    if find_compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    path = CANDIDATES / "task.py"
    text = re.sub(
        r"(CASES = ).*\nHELD_OUT = .*\n", r'\1{"small": {"rows": 16}}\n', path.read_text()
    )
    return Bench(
        judge.run, judge.executor, judge.run(judge.executor.open_task(text, str(path), "cpu"))
    )


@pytest.mark.parametrize(
    ("body", "signal"),
    [(DECOY, "policy.decoy_kernel"), (BESIDE, "policy.host_work")],
    ids=["decoy", "beside"],
)
def test_work_that_the_kernel_does_not_do_needs_review(
    bench: Bench, correct: str, body: str, signal: str
) -> None:
    assert BODY in correct
    found = bench.evaluate(correct.replace(BODY, body), through="profile")
    assert found.status == "needs_review", found.message
    assert signal in [s.name for s in found.signals]
    assert found.fitness == 0.0


@pytest.mark.quiet
def test_the_share_of_an_honest_kernel_is_reported(bench: Bench, correct: str) -> None:
    found = bench.evaluate(correct, through="profile")
    assert found.status == "correct", found.message
    shares = [c.own_kernel_fraction for c in found.cases if c.own_kernel_fraction is not None]
    assert len(shares) == 1
    assert 0 < shares[0] <= 1


@pytest.mark.quiet
@pytest.mark.parametrize("counts", ["[1, 2]", "{'aten.x': 'many'}", "{'aten.x': [1]}", "7"])
def test_what_a_candidate_says_of_itself_cannot_break_the_judge(
    bench: Bench, correct: str, counts: str
) -> None:
    lie = (
        "import harness.workers.operators\nharness.workers.operators.Recorder.counts = lambda "
        f"self: {counts}\n"
    )
    found = bench.evaluate(lie + correct, through="profile")
    assert found.status == "correct", found.message


def test_launching_on_a_device_takes_the_host_time() -> None:
    assert own_work.launch_us(cpu, 3) == own_work.HIDDEN_US
    # an honest start of examples/batch_event_truncate took so long on an H200
    assert own_work.launch_us(cuda, 2) > 429
    assert own_work.launch_us(cuda, 10**6) == own_work.launch_us(cuda, own_work.MOST_LAUNCHES)
