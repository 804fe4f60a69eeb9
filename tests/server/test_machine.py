"""What a client reads of the machine: words and separators, never the key of a device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from mcp import Client

from kevolve_mcp.errors import EvaluatorUnavailable
from kevolve_mcp.executors.fake import FakeExecutor

from .conftest import data, kernel, make_server, open_session, text

pytestmark = pytest.mark.anyio

KEY = "cpu:AMD EPYC:avx2+fma:L132KiB,L2512KiB,L332768KiB"
FACTS = {
    "model": "AMD EPYC",
    "cores": "2",
    "caches": "L1 32 KiB, L2 512 KiB, L3 32768 KiB",
    "vector": "avx2 fma",
}
WORDS = "AMD EPYC; caches L1 32 KiB, L2 512 KiB, L3 32,768 KiB; vector avx2 fma"
IN_FULL = "model AMD EPYC; cores 2; caches L1 32 KiB, L2 512 KiB, L3 32,768 KiB; vector avx2 fma"
RATES = "memory 10.0 GB/s, 15.0 GB/s with streamed stores; float32 100 Gop/s; shortest call 0.0 us"


def epyc() -> FakeExecutor:
    executor = FakeExecutor()
    executor.environment = replace(executor.environment, device=KEY, facts=FACTS)
    return executor


async def test_a_machine_is_described_in_words_with_its_rates(tmp_path: Path) -> None:
    async with Client(make_server(tmp_path, epyc()), mode="auto") as client:
        answer = await client.call_tool("target_describe", {})
    assert f"device: {IN_FULL}\n" in text(answer)
    assert f"measured ceilings, one core: {RATES}\n" in text(answer)
    assert KEY not in text(answer)
    assert data(answer)["machine"]["ceilings"]["bandwidth"] == {"memory": 1e10}


async def test_asks_and_summaries_use_the_same_words(tmp_path: Path) -> None:
    async with Client(make_server(tmp_path, epyc()), mode="auto") as client:
        session = await open_session(client)
        said = text(await client.call_tool("session_next", {"session_id": session}))
        assert f"## Machine\n{IN_FULL}.\n" in said
        assert f"Measured ceilings: {RATES}." in said
        told = data(
            await client.call_tool("kernel_submit", {"session_id": session, "source": kernel()})
        )
        shown = text(
            await client.call_tool(
                "tree_view", {"session_id": session, "evaluation_id": told["evaluation_id"]}
            )
        )
        assert f"device: {WORDS}; fake 1" in shown
        task = "# fake: name=scale\n# another one\nclass Model: pass\n"
        again = text(await client.call_tool("session_open", {"task_source": task}))
        assert f"(in the search) on {WORDS} by n1 of {session}" in again
        for answer in (said, shown, again):
            assert KEY not in answer


async def test_rates_that_cannot_be_measured_are_named_as_missing(tmp_path: Path) -> None:
    class Unmeasured(FakeExecutor):
        async def describe(self, *, ceilings: bool = False):  # type: ignore[no-untyped-def]
            if ceilings:
                raise EvaluatorUnavailable("the device lock is broken", "Remove it.")
            return await super().describe()

    async with Client(make_server(tmp_path, Unmeasured()), mode="auto") as client:
        answer = text(await client.call_tool("target_describe", {"target": "cpu"}))
    assert "cpu can be measured here" in answer
    assert "missing: its ceilings could not be measured: the device lock is broken" in answer
