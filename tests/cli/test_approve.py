"""`kevolve approve`: a person's word, on the machine where the home is."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest

from .conftest import Kevolve


@pytest.fixture
def session(kevolve: Kevolve, task: Path) -> str:
    done = kevolve("optimize", task, "--evaluations", 1, "--no-skills", "--json")
    return str(json.loads(done.stdout)["session"])


def test_who_approved_is_kept_and_shown(kevolve: Kevolve, session: str) -> None:
    done = kevolve("approve", session, "n1", "--by", "R. Viewer", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["approved_by"] == "R. Viewer"
    assert (
        f"kevolve export {session} n1"
        in kevolve("approve", session, "n1", "--by", "Another").stdout
    )
    (node,) = json.loads(kevolve("tree", session, "--json").stdout)["nodes"]
    assert node["approved_by"] == "R. Viewer"  # the first word counts


def test_what_is_wrong_is_told(
    kevolve: Kevolve, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = kevolve("approve", session, "n9")
    assert unknown.exit_code == 2
    assert "n9" in unknown.stderr
    monkeypatch.setattr(
        getpass, "getuser", lambda: (_ for _ in ()).throw(KeyError("uid not found"))
    )
    nameless = kevolve("approve", session, "n1")
    assert nameless.exit_code == 2
    assert "--by" in nameless.stderr
    monkeypatch.setenv("KEVOLVE_SERVER", "http://127.0.0.1:1")
    elsewhere = kevolve("approve", session, "n1")
    assert elsewhere.exit_code == 2
    assert "KEVOLVE_SERVER" in elsewhere.stderr
