"""Artifacts: written whole, verified when read."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kevolve_mcp.errors import NotFound, StoreError
from kevolve_mcp.store.artifacts import Artifacts
from kevolve_mcp.store.examples import refused


def only_file(folder: Path) -> Path:
    (file,) = [path for path in folder.rglob("*") if path.is_file()]
    return file


@pytest.mark.parametrize("data", [b"", b"\0\xff" * 1000, "kernel é\r\n"])
def test_what_is_put_comes_back(data: bytes | str, tmp_path: Path) -> None:
    content = data.encode() if isinstance(data, str) else data
    digest = Artifacts(str(tmp_path)).put(data)
    assert digest == hashlib.sha256(content).hexdigest()
    assert Artifacts(f"file://{tmp_path}").get(digest) == content
    only_file(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"kernex", b"kernel and more"])
def test_damage_is_detected_and_fixed_by_another_put(damage: bytes, tmp_path: Path) -> None:
    artifacts = Artifacts(str(tmp_path))
    digest = artifacts.put("kernel")
    only_file(tmp_path).write_bytes(damage)
    assert "damaged" in refused(StoreError, lambda: artifacts.get(digest)).message
    assert artifacts.put("kernel") == digest
    assert artifacts.text(digest) == "kernel"
    only_file(tmp_path).unlink()
    assert "missing" in refused(StoreError, lambda: artifacts.get(digest)).message


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 64, "0" * 63])
def test_only_a_digest_names_an_artifact(name: str, tmp_path: Path) -> None:
    refused(NotFound, lambda: Artifacts(str(tmp_path)).get(name))


def test_many_put_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        digests = set(
            pool.map(lambda _: Artifacts(str(tmp_path)).put("kernel" * 10_000), range(16))
        )
    assert len(digests) == 1
    assert only_file(tmp_path).read_text() == "kernel" * 10_000


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(StoreError, lambda: Artifacts(str(tmp_path / "file")).put("kernel"))


def test_an_object_store_works_too() -> None:
    artifacts = Artifacts("memory://kevolve-artifacts")
    assert artifacts.text(artifacts.put("kernel")) == "kernel"
    refused(StoreError, lambda: artifacts.get("0" * 64))
