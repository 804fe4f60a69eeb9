"""Stage data as lines for a reader."""

from __future__ import annotations

from kevolve_mcp.sessions.outline import outlined


def test_nested_figures_are_lines() -> None:
    data = {
        "seconds": 0.123456,
        "families": {"small": ["dense", "ties"]},
        "kernels": [{"name": "rows", "spills": {}, "ok": True}, {"name": "sums", "ok": False}],
        "refused": [],
        "note": None,
    }
    assert outlined(data) == [
        "seconds: 0.1235",
        "families:",
        "  small: dense, ties",
        "kernels:",
        "  - name: rows",
        "    spills: none",
        "    ok: yes",
        "  - name: sums",
        "    ok: no",
        "refused: none",
        "note: none",
    ]
