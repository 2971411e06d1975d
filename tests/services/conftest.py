"""A lab whose services may run in the background."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store_harness import Lab, laboratory


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield the real store on a new database, under its own clock."""
    with laboratory(database_url, poll_ms=20) as lab:
        yield lab
