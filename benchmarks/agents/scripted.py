"""A client without a language model: it follows each ask by a simple rule. It shows that the bench
works, and what following asks alone is worth.

    python -m benchmarks.agents.scripted RUN [--evaluations 12]

A start is submitted as it is. To any other ask it answers with the parent's text (the best node's
where there is none) and the first choice of one parameter, then of two, that was not tried; where
nothing is left, it ends the session. It talks to the server through the recording proxy.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, Implementation

from benchmarks.agents import plan as plans
from harness.types import Candidate


class Scripted:
    """One session. sources: of the nodes, as far as they were shown or handed in; an ask does not
    repeat what its reader had before."""

    def __init__(self, client: Client, run: Path) -> None:
        self._client = client
        self._run, self._plan = run, plans.load(run)
        self._sources: dict[str, str] = {}
        self._tried: set[str] = set()
        self._best = (0.0, "")

    async def work(self, evaluations: int) -> str:
        """What is said in the end."""
        task = str(plans.task_file(self._run, self._plan))
        budget = {"evaluations": evaluations}
        opened = await self._call(
            "session_open",
            task_path=task,
            target=self._plan.target,
            language=self._plan.language,
            budget=budget,
        )
        session = opened["session_id"] or opened["session"]["id"]
        ended = "the calls or the time were used up"
        while (batch := await self._try("session_next", session_id=session)) is not None:
            if not batch["asks"]:
                ended = batch["verdict"]
                break
            if not await self._answer(session, batch["asks"][0]["context"]):
                ended = "nothing was left to vary"
                break
        finished = await self._try("session_finish", session_id=session)
        figure = f"{finished['fitness']:.3g}x" if finished else "nothing that could be confirmed"
        return f"Reached {figure}; {len(self._tried)} kernels; {ended}"

    async def _answer(self, session: str, ask: dict[str, Any]) -> bool:
        """False where the rule has nothing left, or the call was refused."""
        if ask["role"] == "start":
            source, words = ask["start"]["source"], {}
        else:
            parents = [p["id"] for p in ask.get("parents", ())]
            self._sources |= {
                p["id"]: p["source"] for p in ask.get("parents", ()) if p.get("source")
            }
            made = next(self._varied([*parents, self._best[1]]), None)
            if made is None:
                return False
            source, changed = made
            words = {"source": source, "hypothesis": f"parameters: {changed}"}
        self._tried.add(source)
        told = await self._try("kernel_submit", session_id=session, ask_id=ask["id"], **words)
        if told is None:
            return False
        node, fitness = told["result"]["node"]["id"], told["result"]["evaluation"]["fitness"] or 0.0
        self._sources[node] = source
        if fitness > self._best[0]:
            self._best = (fitness, node)
            (self._run / "work" / plans.KERNEL).write_text(source)
        return True

    def _varied(self, nodes: list[str]) -> Iterator[tuple[str, str]]:
        """Texts that were not tried and what changed in them: one parameter, then two."""
        for node in nodes:
            if not (source := self._sources.get(node, "")):
                continue
            candidate = Candidate(source, self._plan.language)
            params, tunables = candidate.params(), candidate.tunables()
            names = [name for name in tunables if name in params]
            for count in (1, 2):
                for chosen in itertools.combinations(names, count):
                    for values in itertools.product(*(tunables[name] for name in chosen)):
                        change = dict(zip(chosen, values, strict=True))
                        made = candidate.with_params({**params, **change}).source
                        if made not in self._tried:
                            yield made, f"{node} with {change}"

    async def _try(self, tool: str, **arguments: Any) -> dict[str, Any] | None:
        """None where the call was refused, e.g. since the budget is used up."""
        try:
            return await self._call(tool, **arguments)
        except RefusedError as error:
            print(f"{tool}: {error}", flush=True)
            return None

    async def _call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured answer; a job that runs is waited for."""
        data = _data(await self._client.call_tool(tool, arguments))
        while data.get("state") == "running":
            waited = {"job_id": data["job_id"], "wait_s": 45}
            data = _data(await self._client.call_tool("job_wait", waited))
        if tool == "session_finish" and "fitness" not in data:
            result = data["result"]
            data["fitness"] = (result["measured"] or result["confirmed"])["fitness"]
        if tool == "session_open" and "session" not in data:
            data["session"] = data["result"]["session"]
        return data


class RefusedError(Exception):
    """The server, or the proxy, refused a call."""


def _data(result: CallToolResult) -> dict[str, Any]:
    if result.is_error or not isinstance(result.structured_content, dict):
        raise RefusedError("\n".join(b.text for b in result.content if b.type == "text"))
    return result.structured_content


async def main(run: Path, evaluations: int) -> str:
    command, *arguments = plans.proxy(run)
    server = StdioServerParameters(
        command=command, args=arguments, env=plans.environment(run), cwd=plans.ROOT
    )
    with (run / "client.log").open("a") as log:
        identity = Implementation(name="scripted", version="1")
        async with Client(stdio_client(server, errlog=log), client_info=identity) as client:
            return await Scripted(client, run).work(evaluations)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--evaluations", type=int, default=12)
    given = parser.parse_args()
    print(asyncio.run(main(given.run.absolute(), given.evaluations)), flush=True)
