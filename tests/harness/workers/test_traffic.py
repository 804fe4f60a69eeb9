"""What a call has to read of its inputs and parameters, by which its roofline is computed."""

from __future__ import annotations

import pytest

from harness.types import Case, Task
from kevolve_mcp.executors.testing import OpenJudge

TABLE = 1000 * 64 * 4  # bytes
PICKED = 50 * 64 * 4


def opened(judge: OpenJudge, body: str, inputs: str) -> Case:
    return task(judge, body, inputs).cases[0]


def task(judge: OpenJudge, body: str, inputs: str) -> Task:
    source = (
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.table = nn.Parameter(torch.randn(1000, 64))\n\n"
        f"    def forward(self, *given):\n        return {body}\n\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    return judge.run(judge.executor.open_task(source, "", "cpu", timed=False))


@pytest.mark.parametrize(
    "lookup",
    [
        "F.embedding(given[0], self.table)",
        "self.table[given[0]]",
        "self.table.index_select(0, given[0])",
        "F.embedding_bag(given[0].view(5, 10), self.table, mode='sum')",
    ],
)
def test_of_a_table_only_the_rows_that_are_picked_count(judge: OpenJudge, lookup: str) -> None:
    case = opened(judge, lookup, "torch.randperm(1000)[:50]")
    assert case.bytes_min == PICKED + 50 * 8 + case.bytes_written
    assert case.bytes_held == TABLE + 50 * 8 + case.bytes_written


def test_a_row_that_is_picked_twice_counts_once(judge: OpenJudge) -> None:
    case = opened(judge, "F.embedding(given[0], self.table)", "torch.arange(100) // 2")
    assert case.bytes_min == PICKED + 100 * 8 + case.bytes_written


def test_elements_that_are_picked_count_by_themselves(judge: OpenJudge) -> None:
    case = opened(judge, "self.table.gather(1, given[0])", "torch.randint(0, 64, (1000, 1))")
    assert case.bytes_min == 1000 * 4 + 1000 * 8 + case.bytes_written


def test_what_is_read_twice_counts_once_and_of_a_view_what_it_shows(judge: OpenJudge) -> None:
    body = "(given[0] @ self.table[:32].t()) + given[0].sum(-1, keepdim=True)"
    case = opened(judge, body, "torch.randn(16, 64)")
    assert case.bytes_min == 16 * 64 * 4 + 32 * 64 * 4 + case.bytes_written


def test_what_no_operator_reads_counts_whole(judge: OpenJudge) -> None:
    case = opened(judge, "given[0] * 2", "torch.randn(16, 64)")
    assert case.bytes_min == TABLE + 16 * 64 * 4 + case.bytes_written


def test_counting_adds_no_operator_to_the_task(judge: OpenJudge) -> None:
    found = task(judge, "F.embedding(given[0], self.table)", "torch.arange(100) // 2")
    assert dict(found.operators) == {"aten.embedding.default": 1}
    assert not any("order equal values" in note for note in found.notes)


def test_an_input_that_is_expanded_counts_by_what_is_there(judge: OpenJudge) -> None:
    case = opened(judge, "given[0] + self.table", "torch.randn(64).expand(1000, 64)")
    assert case.bytes_min == 64 * 4 + TABLE + case.bytes_written
    assert case.bytes_min == case.bytes_held


@pytest.mark.parametrize("layout", ["to_sparse_csr()", "to_mkldnn().to_dense()"])
def test_other_layouts_are_no_obstacle(judge: OpenJudge, layout: str) -> None:
    case = opened(judge, f"given[0].{layout} @ self.table", "torch.randn(64, 1000).relu()")
    assert case.bytes_min == 64 * 1000 * 4 + TABLE + case.bytes_written


def test_a_storage_among_an_operators_arguments_is_no_tensor(judge: OpenJudge) -> None:
    """As where cuDNN lays the weights of a recurrent network out anew."""
    laid_out = "torch.empty(0).set_(given[0].untyped_storage(), 0, (16, 64), (64, 1))"
    case = opened(judge, f"{laid_out} @ self.table.t()", "torch.randn(16, 64)")
    assert case.bytes_min == 16 * 64 * 4 + TABLE + case.bytes_written
