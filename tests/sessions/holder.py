"""A process that opens a session, submits a slow kernel and waits to be killed. Arguments: home,
task file, seconds."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.sessions import Service
from kevolve_mcp.sessions.types import SessionSpec, SubmitRequest, Text
from kevolve_mcp.settings import Settings

from .conftest import kernel, opened, told


async def main(home: Path, task: str, seconds: str) -> None:
    async with Service(Settings(home=home), lambda python, near: FakeExecutor()) as service:
        session = await opened(service, SessionSpec(Text(path=task)))
        await told(service, session, kernel(1.3))
        ask = (await service.next(session)).asks[0].context
        source = kernel(1.8, seconds=seconds)
        job = await service.submit(
            SubmitRequest(session, Text(source=source), ask_id=ask.id, hypothesis="slow to judge")
        )
        print(session, job.id, ask.id, flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], sys.argv[3])
