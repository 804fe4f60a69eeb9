"""A judge whose caller leaves while it works ends at once, and says nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.types import Candidate, EvaluationRequest, to_json

ROOT = Path(__file__).parents[3]
TASK = """
import torch

def reference(x):
    return x.sin()

def get_inputs():
    return [torch.randn(64, 32)]
"""
SLOW = """
import time
import torch.nn as nn

class ModelNew(nn.Module):
    def forward(self, x):
        time.sleep(60)
"""


@pytest.mark.parametrize("reads", [True, False], ids=["still reads", "reads no more"])
def test_a_judge_ends_quietly_in_the_middle_of_its_work(judge_cache: Path, reads: bool) -> None:
    code = f"from harness.judge.main import main; main({str(judge_cache)!r})"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr

        def until(number: int, stage: str, **message: object) -> Any:
            """The result of a call, or None once it is at a stage."""
            json.dump({"id": number, "target": "cpu", **message}, process.stdin)
            print(file=process.stdin, flush=True)
            for line in process.stdout:
                answer = json.loads(line)
                if "event" not in answer:
                    return answer["result"]
                if answer["event"]["stage"] == stage:
                    break
            return None

        given = {"source": TASK, "path": "", "timed": False, "fresh": False}
        task = until(1, "", op="open_task", **given)
        request = EvaluationRequest(Candidate(SLOW, "cpp"), "check", "verify")
        assert until(2, "verify", op="evaluate", task=task, request=to_json(request)) is None
        if not reads:
            process.stdout.close()
        process.stdin.close()
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
