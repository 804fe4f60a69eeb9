"""What is known of an evaluator is asked once, and nobody waits for what he did not ask."""

from __future__ import annotations

import anyio
import pytest

from harness.types import MachineReport
from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.sessions.pool import Pool


class Slow(FakeExecutor):
    """Takes its time to measure ceilings, and has none in the end."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[bool] = []
        self.measured = anyio.Event()

    async def describe(self, *, ceilings: bool = False) -> MachineReport:
        self.asked.append(ceilings)
        if ceilings:
            await self.measured.wait()
        return await super().describe()


@pytest.mark.anyio
async def test_who_wants_no_ceilings_does_not_wait_for_them() -> None:
    judge = Slow()
    pool = Pool(lambda python, near: judge)
    plain = await pool.report(judge)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: pool.report(judge, ceilings=True))
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(1):
            assert await pool.report(judge) == plain
        judge.measured.set()
    await pool.report(judge, ceilings=True)
    assert judge.asked == [False, True]
