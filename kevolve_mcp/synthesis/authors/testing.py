"""The contract of `Author` as tests: inherit, provide an author, run with pytest.

class TestMine(AuthorConformance):
    def author(self): return MyAuthor()
    def unable(self): return MyAuthor(key="wrong")
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import anyio
import pytest

from harness.types import Candidate, Case, Task, TensorSpec
from kevolve_mcp.errors import KEvolveError
from kevolve_mcp.synthesis.ask import AskContext, ParentView, StartView, TaskFacts, structure_digest

from .base import Author, Proposal

TASK = """import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.relu()


def get_inputs():
    import torch

    return [torch.randn(32, 256)]
"""
PARENT = '''import torch
from harness.native import load_cpp

TUNABLES = {"UNROLL": [1, 2, 4, 8], "WIDTH": [64, 128, 256]}
PARAMS = {"UNROLL": 1, "WIDTH": 128}
SOURCE = r"""
#include <cstdint>
extern "C" void relu(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
}
"""
_library = load_cpp(SOURCE)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _library.relu(x.data_ptr(), y.data_ptr(), x.numel())
        return y
'''


def question(identifier: str = "a1", **changes: Any) -> AskContext:
    """Return an ask to improve a small C++ kernel that can be tuned."""
    rows = TensorSpec((32, 256), "float32", (256, 1), 32 << 10)
    case = Case(
        "only", inputs=(rows,), outputs=(rows,), baselines_us={"eager": 10.0}, roofline_time_us=2.0
    )
    facts = TaskFacts.of(
        Task("relu", "d" * 64, TASK, cases=(case,), operators={"aten.relu.default": 1})
    )
    candidate = Candidate(PARENT, "cpp")
    params, tunables = candidate.params(), candidate.tunables()
    parent = ParentView(
        "n1", PARENT, "correct", 1.2, (), params, tunables, structure_digest(candidate)
    )
    context = AskContext(
        "relu-1",
        identifier,
        "improve",
        "parent",
        "cpu",
        "cpp",
        facts,
        seed=7,
        parents=(parent,),
        best=parent,
    )
    return replace(context, text=f"Improve n1 of relu-1.\n\n```python\n{PARENT}```\n", **changes)


class AuthorConformance(ABC):
    """Every test makes its own author and its own event loop."""

    @abstractmethod
    def author(self) -> Author:
        """A fresh author that can answer `ask()`."""

    @abstractmethod
    def unable(self) -> tuple[Author, AskContext]:
        """A fresh author and an ask to which it has no answer: nothing left, no key, a refusal …"""

    def ask(self, identifier: str = "a1", **changes: Any) -> AskContext:
        """What the author is asked; override where it answers only something else."""
        return question(identifier, **changes)

    def test_it_has_a_name(self) -> None:
        author = self.author()
        assert author.name
        assert author.name == author.name.strip().lower()

    def test_a_proposal_is_a_whole_candidate(self) -> None:
        proposal = self._propose(self.ask())
        assert isinstance(proposal, Proposal)
        assert proposal.language == self.ask().language
        names = {getattr(n, "name", "") for n in ast.parse(proposal.source).body}
        assert names & {"ModelNew", "kernel"}
        assert proposal.hypothesis.strip()
        assert proposal.predicted_speedup is None or proposal.predicted_speedup > 0
        assert proposal.cost.tokens >= 0
        assert proposal.cost.usd >= 0

    def test_a_start_is_answered_with_its_text_and_costs_nothing(self) -> None:
        start = self.ask(
            role="start",
            parents=(),
            best=None,
            start=StartView("# any text\n", "user file", "given"),
        )
        proposal = self._propose(start)
        assert (proposal.source, proposal.language) == ("# any text\n", start.language)
        assert not proposal.cost
        assert "user file" in proposal.rationale

    def test_the_same_ask_after_a_restart_gets_the_same_kind_of_answer(self) -> None:
        first, second = (self._propose(self.ask()) for _ in range(2))
        assert first.language == second.language
        assert Candidate(second.source, second.language).digest

    def test_asks_at_once_do_not_mix(self) -> None:
        proposals: dict[str, Proposal] = {}

        async def body() -> None:
            author = self.author()
            try:
                async with anyio.create_task_group() as group:
                    for number in range(3):
                        text = StartView(f"# start {number}\n", "user file", "")
                        group.start_soon(
                            one, author, self.ask(f"a{number}", role="start", start=text)
                        )
                    group.start_soon(one, author, self.ask("a9"))
            finally:
                await author.close()

        async def one(author: Author, ask: AskContext) -> None:
            proposals[ask.id] = await author.propose(ask)

        anyio.run(body)
        assert [proposals[f"a{n}"].source for n in range(3)] == [f"# start {n}\n" for n in range(3)]
        assert proposals["a9"].source not in {f"# start {n}\n" for n in range(3)}

    def test_it_says_what_to_do_when_it_has_no_answer(self) -> None:
        author, ask = self.unable()

        async def body() -> None:
            try:
                with pytest.raises(KEvolveError) as caught:
                    await author.propose(ask)
                assert caught.value.message
                assert caught.value.code
            finally:
                await author.close()

        anyio.run(body)

    def test_closing_twice_does_nothing(self) -> None:
        async def body() -> None:
            author = self.author()
            await author.close()
            await author.close()

        anyio.run(body)

    def _propose(self, ask: AskContext) -> Proposal:
        async def body() -> Proposal:
            author = self.author()
            try:
                return await author.propose(ask)
            finally:
                await author.close()

        return anyio.run(body)
