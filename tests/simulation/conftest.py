"""A laboratory whose cooldowns have their exact length: a world has no jitter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from freshline.store.runs import finish
from tests.store_harness import Lab, laboratory


@pytest.fixture
def lab(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The real store and services on a fresh database."""
    monkeypatch.setattr(finish, "JITTER", 0.0)
    with laboratory(database_url) as lab:
        yield lab
