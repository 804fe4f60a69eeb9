"""What each command imports: to import the rest would take longer than its work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kevolve_mcp.store import NewSkill, Store

from .conftest import Kevolve

PROGRAM = """
import sys
from kevolve_mcp.cli import app
try:
    app(sys.argv[1:], prog_name="kevolve")
except SystemExit as ended:
    assert not ended.code, ended.code
print(*sys.modules, file=sys.stderr)
"""
# of commands that only look, on this machine
NEVER = {
    "alembic",
    "fsspec",
    "libcst",
    "mcp",
    "optuna",
    "pydantic_ai",
    "torch",
    "kevolve_mcp.cli.optimize",
    "kevolve_mcp.cli.evaluate",
    "kevolve_mcp.cli.doctor",
    "kevolve_mcp.driver.connection",
    "kevolve_mcp.driver.loop",
    "kevolve_mcp.executors",
    "kevolve_mcp.export",
    "kevolve_mcp.sessions.jobs",
    "kevolve_mcp.sessions.service",
    "kevolve_mcp.sessions.types",
    "kevolve_mcp.synthesis.sections",
    "kevolve_mcp.synthesis.skills",
}
# of commands that look nothing up in a store
NO_STORE = {
    "sqlalchemy",
    "harness",
    "kevolve_mcp.api.evaluations",
    "kevolve_mcp.api.sessions",
    "kevolve_mcp.api.views",
    "kevolve_mcp.search",
    "kevolve_mcp.sessions.looking",
    "kevolve_mcp.store.store",
}
# of commands that know nothing of pages
NO_PAGES = {"knowledge", "kevolve_mcp.retrieval", "yaml"}
NO_TABLES = {"rich.table", "rich.tree"}
NO_DOCUMENTS = {"knowledge.documents", "kevolve_mcp.retrieval", "filelock"}


def imported(*arguments: object) -> set[str]:
    """The modules that the program has imported at its end, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.fixture
def session(kevolve: Kevolve, task: Path) -> str:
    done = kevolve("optimize", task, "--evaluations", 2, "--no-skills", "--json")
    return str(json.loads(done.stdout)["session"])


def test_help_imports_no_work() -> None:
    assert not imported("--help") & (NEVER - {m for m in NEVER if m.startswith("kevolve_mcp.cli.")})
    assert not imported("--help") & (NO_STORE | NO_PAGES | {"anyio"})


@pytest.mark.parametrize(
    "arguments", [("search", "cache", "blocking"), ("search", "birthday cake"), ("read", "index")]
)
def test_looking_something_up_needs_pages_alone(arguments: tuple[str, ...]) -> None:
    unwanted = NEVER | NO_STORE | NO_DOCUMENTS | NO_TABLES
    assert not imported("knowledge", *arguments) & unwanted


def test_a_home_that_was_taught_nothing_is_not_opened_to_search(session: str) -> None:
    unwanted = NEVER | NO_STORE | NO_DOCUMENTS | NO_TABLES
    assert not imported("knowledge", "search", "cache blocking") & unwanted


def test_a_skill_that_was_accepted_is_found_in_its_store(home: Path) -> None:
    new = NewSkill(
        title="Polish the zorble twice",
        mechanism="It shines.",
        preconditions="",
        counter_indications="",
        code="",
        matches={},
        target="cpu",
        language="cpp",
        signals=(),
        files={},
    )
    with Store.open(home) as store:
        skill = store.skills.propose(new, [], author="me")[0].id
        store.skills.decide(skill, "accepted", "seen")
    found = imported("knowledge", "search", "zorble")
    assert "sqlalchemy" in found
    assert not found & NEVER


@pytest.mark.parametrize("command", [("tree", "{}"), ("sessions",), ("show", "{}", "n1")])
def test_looking_at_sessions_needs_the_store_alone(session: str, command: tuple[str, ...]) -> None:
    unwanted = NEVER | NO_PAGES | {"rich.progress_bar", "rich.live"}
    assert not imported(*(part.format(session) for part in command)) & unwanted
