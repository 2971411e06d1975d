"""Every scenario has a laboratory of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab import Lab, laboratory


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """The real store and services on a fresh database, under a clock of its own."""
    with laboratory(database_url) as lab:
        yield lab
