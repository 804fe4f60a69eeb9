"""The fake keeps the contract that real executors keep."""

from __future__ import annotations

from kevolve_mcp.executors.base import Executor
from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.executors.testing import ExecutorConformance, Texts


class TestFakeExecutor(ExecutorConformance):
    def executor(self) -> Executor:
        return FakeExecutor()

    def texts(self) -> Texts:
        return Texts(
            task="class Model: pass\n",
            refused="def nothing(): pass\n",
            correct="# fake: speedup=1.5\nclass ModelNew: pass\n",
            incorrect="# fake: status=incorrect\nclass ModelNew: pass\n",
            slow="# fake: seconds=30\nclass ModelNew: pass\n",
        )
