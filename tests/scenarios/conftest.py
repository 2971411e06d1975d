"""A lab for each scenario."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store_harness import Lab, laboratory


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield the real store and services on a fresh database; at the end no stale workflow may be forgotten.

    See docs/semantics.md#R4.1.
    """
    with laboratory(database_url) as lab:
        yield lab
        assert lab.forgotten() == 0, "the sweep found stale workflows that nobody would look at"
