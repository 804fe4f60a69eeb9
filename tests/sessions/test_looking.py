"""Views of sessions, trees, nodes and evaluations."""

from __future__ import annotations

import pytest

from kevolve_mcp.api import views
from kevolve_mcp.errors import NotFound, StoreError, UsageError
from kevolve_mcp.sessions.types import SessionSpec

from .conftest import Bench, finish, kernel, opened, told

pytestmark = pytest.mark.anyio


async def test_views(bench: Bench) -> None:
    async with bench.service() as service:
        assert (await service.tree()).kind == "sessions"
        session = await opened(service, SessionSpec(bench.task()))
        ask = (await service.next(session)).asks[0].context
        await told(service, session, kernel(1.2), ask_id=ask.id, hypothesis="first try")
        await told(
            service,
            session,
            kernel(1.5),
            parents=("n1",),
            hypothesis="wider",
            predicted_speedup=1.4,
        )
        await told(service, session, kernel(status="crashed"), parents=("n1",))

        tree = await service.tree(session)
        assert tree.session is not None
        assert tree.session.best is not None
        assert tree.session.best.id == "n2"
        lines = tree.text.splitlines()
        assert lines[0].startswith("+ n1 1.2x")
        assert lines[1].startswith("  * n2 1.5x")
        assert lines[2].startswith("  - n3 crashed")
        assert "wider" in (await service.tree(session, detailed=True)).text
        assert session in (await service.tree()).text

        node = await service.tree(session, node_id="n2")
        assert "hypothesis: wider" in node.text
        assert "predicted: 1.4x the speed of its parent; measured: 1.25x" in node.text
        assert node.evaluation is not None
        assert node.evaluation.id == "e2"
        assert "speedup=1.5" in (await service.tree(session, node_id="n2", section="source")).text
        assert ask.text in (await service.tree(session, node_id="n1", section="context")).text
        assert "log of build" in (await service.tree(session, node_id="n3", section="log")).text
        assert "ok" in (await service.tree(session, evaluation_id="e1", section="stages")).text
        cases = await service.tree(session, evaluation_id="e2", section="cases")
        assert '"speedup": 1.5' in cases.text
        diff = await service.tree(session, node_id="n2", diff_base="parent")
        assert "+# fake: speedup=1.5" in diff.text
        assert await service.source(session, "n2") == kernel(1.5)
        assert "n2" in await service.report(session)
        await finish(service, session)
        assert "As a user calls the package" in await service.report(session)


async def test_long_texts_come_in_pieces(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "PIECE", 100)
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        source = kernel(extra="\n".join(f"# line {i}" for i in range(40)))
        await told(service, session, source)
        pieces = [await service.tree(session, node_id="n1", section="source")]
        while cursor := pieces[-1].next_cursor:
            assert pieces[-1].remaining == len(source) - cursor
            pieces.append(
                await service.tree(session, node_id="n1", section="source", cursor=cursor)
            )
        text = "\n".join(piece.text for piece in pieces)
        assert {piece.heading for piece in pieces} == {pieces[0].heading}
        assert text.split() == source.split()
        within = await service.tree(session, node_id="n1", section="source", cursor=5)
        assert within.text.startswith(f"… {source[5:20]}")
        with pytest.raises(UsageError, match="beyond the end"):
            await service.tree(session, node_id="n1", section="source", cursor=10_000)


async def test_wrong_ids_teach(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.2))
        with pytest.raises(NotFound) as error:
            await service.tree(session, node_id="n11")
        assert "n1" in error.value.hint
        with pytest.raises(NotFound) as error:
            await service.tree(session, evaluation_id="e77")
        assert error.value.hint == "It has e1 to e1."
        with pytest.raises(UsageError, match="without its session"):
            await service.tree(evaluation_id="e1")
        for odd in ("x77", "e", "1", "n1", "no-such/e1", "/e1"):
            with pytest.raises(NotFound):
                await service.tree(session, evaluation_id=odd)
        with pytest.raises(UsageError, match="without its session"):
            await service.tree(node_id="n1")
        for named in ({"evaluation_id": "e1"}, {}):
            with pytest.raises(UsageError, match="belongs to a session"):
                await service.tree(**named, section="template")
        with pytest.raises(UsageError, match="unknown section") as unknown:
            await service.tree(session, section="templates")
        assert "template" in unknown.value.hint
        with pytest.raises(UsageError, match="a difference needs"):
            await service.tree(session, diff_base="parent")
        assert (await service.tree(session, node_id="n1", diff_base="parent")).heading.startswith(
            "n0 -> n1: "
        )


async def test_sessions_and_trees_are_shown_without_the_texts_of_kernels(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.2))
        whole = await service.tree(session), await service.tree()
    home = bench.home / "home"
    for file in (home / "artifacts").rglob("*"):
        if file.is_file() and kernel(1.2) in file.read_text():
            file.unlink()
    async with bench.service() as service:
        assert (await service.tree(session), await service.tree()) == whole
        with pytest.raises(StoreError, match="missing"):
            await service.source(session, "n1")
