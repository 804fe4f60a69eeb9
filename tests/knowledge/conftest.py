"""The built-in library, loaded once for these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowledge import Library


@pytest.fixture(scope="session")
def library() -> Iterator[Library]:
    built = Library.builtin()
    yield built
    built.close()
