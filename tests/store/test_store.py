"""The store against the databases it supports."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kevolve_mcp.store.testing import StoreConformance


class TestSqlite(StoreConformance):
    pass


# read at once: tests run without the settings of who starts them
POSTGRES = os.environ.get("KEVOLVE_TEST_POSTGRES", "")


@pytest.mark.skipif(not POSTGRES, reason="KEVOLVE_TEST_POSTGRES names no database")
class TestPostgres(StoreConformance):
    def url(self, home: Path) -> str:
        return POSTGRES
