"""Gives a task to an agent that has only a shell: starts the server behind the recording proxy,
keeps one connection to it, and passes on the calls that `call.py` brings.

    python -m benchmarks.agents.serve TASK RUN [--agent NAME] [--without-server]
        [--seconds 1800] [--calls 200] [--target cpu] [--code CHECKOUT]

RUN: a folder that does not exist yet; RUN/work/BRIEF.md is what to tell the agent. Ends when the
agent calls `end`, or three minutes after its time is over. Then judge it:
`python -m benchmarks.agents.judge RUN`.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.types import Implementation

from benchmarks.agents import plan as plans
from benchmarks.agents import run as running
from benchmarks.agents import versions
from benchmarks.agents.call import SOCKET
from benchmarks.agents.plan import Plan

GRACE_S = 180.0
LINE = 64 << 20  # bytes of one request or answer


class Keeper:
    """One connection to the server for all calls of one agent, so that it is one client."""

    def __init__(self, run: Path, plan: Plan, client: Client | None) -> None:
        self._run, self._plan, self._client = run, plan, client
        self._over = asyncio.Event()

    async def keep(self) -> None:
        os.chdir(self._run)  # a socket's path may have 107 bytes; a name in the folder is short
        serving = await asyncio.start_unix_server(self._talk, SOCKET, limit=LINE)
        async with serving:
            left = self._plan.until + GRACE_S - time.time()
            try:
                await asyncio.wait_for(self._over.wait(), left)
            except TimeoutError:
                print("the time is over", flush=True)
        Path(SOCKET).unlink(missing_ok=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = json.loads(await reader.readline())
            answer = await self._answered(request["tool"], request["arguments"])
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (ConnectionError, ValueError) as error:
            print(f"a call was lost: {error}", flush=True)
        finally:
            writer.close()

    async def _answered(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if tool == "end":
            (self._run / "said.txt").write_text(str(arguments.get("said", "")))
            self._over.set()
            return {"text": "The run has ended.", "error": False}
        if self._client is None:
            return {"text": "This run is without the server: only `end` is here.", "error": True}
        if tool == "tools":
            listed = await self._client.list_tools()
            texts = [self._client.instructions or ""]
            texts += [
                f"{t.name}: {t.description}\n  {json.dumps(t.input_schema.get('properties', {}))}"
                for t in listed.tools
            ]
            return {"text": "\n\n".join(texts), "error": False}
        try:
            result = await self._client.call_tool(tool, arguments)
        except MCPError as error:
            return {"text": f"the server refused the call: {error}", "error": True}
        text = "\n".join(b.text for b in result.content if b.type == "text")
        return {"text": text, "error": bool(result.is_error)}


async def serve(run: Path, plan: Plan) -> None:
    if not plan.with_server:
        await Keeper(run, plan, None).keep()
        return
    command, *arguments = plans.proxy(run)
    server = StdioServerParameters(
        command=command, args=arguments, env=plans.environment(run), cwd=plans.ROOT
    )
    identity = Implementation(name=plan.agent, version="1")
    with (run / "client.log").open("a") as log:
        async with Client(stdio_client(server, errlog=log), client_info=identity) as client:
            await Keeper(run, plan, client).keep()


def main() -> None:
    made = running.parser()
    made.description = __doc__
    made.add_argument("--agent", default="by-hand")
    given = made.parse_args()
    run, plan = running.agreed(given, given.agent)
    brief = run / "work" / "BRIEF.md"
    with brief.open("a") as text:
        text.write(_by_shell(run, plan))
    print(f"tell the agent: read {brief} and do what it says", flush=True)
    with versions.kept(run, plan):
        asyncio.run(serve(run, plan))
    running.note_end(run, 0)


def _by_shell(run: Path, plan: Plan) -> str:
    call = f"{plans.ROOT / 'benchmarks/agents/call.py'} {run}"
    lines = [f"When you are done: python3 {call} end 'what you reached, what helped or hindered'"]
    if plan.with_server:
        lines = [
            f"The server's tools are called from the shell: python3 {call} TOOL '{{json}}'; "
            "`tools` in place of TOOL lists them. A long text may come from a file: "
            f"python3 {call} TOOL @arguments.json.",
            *lines,
        ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
