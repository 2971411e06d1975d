"""A store whose cooldowns have no jitter, as in the simulator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from freshline.store.runs import finish
from tests.store_harness import Lab, laboratory


@pytest.fixture
def lab(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """Yield the real store and services on a new database."""
    monkeypatch.setattr(finish, "JITTER", 0.0)
    with laboratory(database_url) as lab:
        yield lab
