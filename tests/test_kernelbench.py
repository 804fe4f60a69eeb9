"""The benchmark on KernelBench's problems, with a checkout of two that this test writes: judged,
mutated, remembered, resumed."""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import kernelbench
from benchmarks.problems import cheats, checkout, mutating, plan, rules, summary
from benchmarks.problems.peers import TITLES, Peer
from benchmarks.problems.records import PEERS, Record, Records
from tests.exploits.entries import entries

SCALED = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super(Model, self).__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        x = self.linear(x)
        x = torch.relu(x) + 0.5 * x
        return torch.softmax(x, dim=1)


batch_size = 32
width = 64


def get_inputs():
    return [torch.rand(batch_size, width)]


def get_init_inputs():
    return [width]
"""
CONSTANT = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)


def get_inputs():
    return [torch.rand(16, 16)]


def get_init_inputs():
    return []
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for level, name, text in ((1, "7_Scaled.py", SCALED), (2, "3_Constant.py", CONSTANT)):
        path = tmp_path / "checkout" / "KernelBench" / f"level{level}" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return tmp_path / "checkout"


def options(folder: Path, resume: Path, **changed: object) -> Namespace:
    given = {
        "target": "cpu",
        "limit_s": 300.0,
        "problem_s": 120.0,
        "mutants": 1,
        "timed": 0,
        "exploits": 0,
        "peer": False,
        "backendbench": None,
        "chosen": False,
    }
    return Namespace(folder=folder, resume=resume, **{**given, **changed})


def sitting(folder: Path, resume: Path, **changed: object) -> tuple[Records, kernelbench.Sitting]:
    records = Records(resume)
    return records, kernelbench.Sitting(
        options(folder, resume, **changed), checkout.problems(folder), records
    )


def test_two_problems_are_judged_in_three_sittings(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resume = tmp_path / "records.jsonl"
    records, first = sitting(folder, resume)
    asyncio.run(first.make())
    made = records.get("made", "1/7") or records.get("made", "2/3")
    assert made is not None
    # a sitting that was killed as it wrote
    resume.write_text(resume.read_text() + '{"part": "identity", "subj')
    records, second = sitting(folder, resume)
    asyncio.run(second.run())
    assert second.missing() == 0
    identities = {r.subject: r for r in records.of("identity")}
    assert identities["1/7"].outcome == "correct"
    assert identities["1/7"].figures["input_bytes"] == 32 * 64 * 4
    assert identities["2/3"].outcome == "refused"
    assert "zeros would pass the check in place of the outputs" in identities["2/3"].message
    (mutant,) = records.of("mutant")
    assert (mutant.subject, mutant.outcome) == ("1/7", "incorrect")
    said = capsys.readouterr().out
    assert "1/7" in said
    assert "2/3" in said
    lines = [json.loads(line) for line in resume.read_text().splitlines()]
    records, third = sitting(folder, resume)
    asyncio.run(third.run())  # nothing is left, so no judge is started
    assert [json.loads(line) for line in resume.read_text().splitlines()] == lines
    assert "| all | 2 | 1 | 1 | 0 |" in summary.text(records)
    assert "Mutants: 1 of 1 caught" in summary.text(records)
    assert not summary.faults(records)


def test_what_is_done_next_follows_from_what_was_done(folder: Path) -> None:
    problems, records = checkout.problems(folder), Records(None)
    wanted = plan.Wanted(mutants=1, timed=1, exploits=1, peers=("kernelbench",))
    first = [
        work.subject
        for work in plan.missing(problems, ["e01"], records, wanted)
        if "identity" in work.parts
    ]
    assert first == ["1/7", "2/3"]
    records.add(Record("identity", "2/3", "refused"))
    records.add(Record("identity", "1/7", "correct"))
    records.add(Record("made", "1/7", "made"))
    order = [
        (work.subject, work.parts) for work in plan.missing(problems, ["e01"], records, wanted)
    ]
    assert order == [
        ("1/7", ("mutant", "timed")),
        ("e01", ("exploit",)),
        ("1/7", ("kernelbench identity", "kernelbench mutant")),
        ("e01", ("kernelbench exploit",)),
    ]
    records.add(Record("mutant", "1/7", "unavailable", "gone"))
    assert plan.next_work(problems, [], records, plan.Wanted(mutants=1)) is None
    assert [r.message for r in summary.faults(records)] == ["gone"]
    records.forget(["unavailable"])
    assert plan.next_work(problems, [], records, plan.Wanted(mutants=1)) == plan.Work(
        "1/7", ("mutant",)
    )


def test_every_rule_leaves_text_that_can_be_read(folder: Path) -> None:
    problem = checkout.problems(folder)[0]
    found = rules.mistakes(problem.source)
    assert {m.rule for m in found} >= {
        "another axis",
        "another activation",
        "another constant",
        "a term dropped",
        "results misplaced",
    }
    for mistake in found:
        compile(mistake.source, "mistake.py", "exec")
        assert mistake.source != problem.source
    assert mutating.ordered(problem) == mutating.ordered(problem)


def test_a_folder_without_problems_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="name a checkout of KernelBench"):
        checkout.problems(tmp_path)
    monkeypatch.setattr("sys.argv", ["kernelbench.py"])
    assert kernelbench.main() == 0
    assert "no checkout of KernelBench was named" in capsys.readouterr().out


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_says_why_it_does_not_run(folder: Path, name: str) -> None:
    async def body() -> dict[str, object]:
        peer = Peer(name, folder)
        found = await peer.judge(SCALED, checkout.candidate(SCALED), 60.0)
        await peer.stop()
        return found

    found = asyncio.run(body())
    assert found["outcome"] == "unavailable"
    assert f"{TITLES[name]} does not run here" in str(found["message"])


def test_the_same_exploits_are_taken_every_time() -> None:
    names = [e.name for e in cheats.exploits("cuda", 10)]
    assert len(set(names)) == 10
    assert names == [e.name for e in cheats.exploits("cuda", 10)]
    entry = next(e for e in cheats.every("cuda") if "correct" not in e.expect)
    assert cheats.fooled(entry, "correct", None, claimed=False)
    assert not cheats.fooled(entry, "incorrect", None, claimed=True)


def test_nobody_is_fooled_by_what_is_done_to_this_evaluator_alone() -> None:
    known = {e.name: e for e in cheats.every("cuda")}
    # a kernel of its own, which is faster than eager execution
    assert cheats.fooled(known["e24_warms_itself"], "correct", 3.0, claimed=True)
    assert not cheats.fooled(known["e24_warms_itself"], "correct", 3.0, claimed=True, here=False)
    assert not cheats.fooled(known["e39_crooked_address"], "correct", 1.0, claimed=True, here=False)
    assert cheats.fooled(known["e20_cache_by_pointer"], "correct", 3.0, claimed=True, here=False)
    assert cheats.fooled(known["e15_stale_parameters"], "correct", 1.0, claimed=True, here=False)


def test_the_peer_sees_exploits_with_the_references_parameters() -> None:
    entry = next(e for e in entries("honest") if e.name == "buffer_reused_after_it_was_dropped")
    loaded: dict[str, Any] = {}
    exec(cheats.with_parameters(entry), loaded)
    reference: dict[str, Any] = {}
    exec(cheats.task(entry), reference)
    torch.manual_seed(3)
    wanted = reference["Model"](10).state_dict()
    torch.manual_seed(3)
    found = loaded["ModelNew"](10).state_dict()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
