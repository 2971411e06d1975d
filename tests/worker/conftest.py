"""A run that waits to be begun."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store_harness import Lab, laboratory, workflow


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a lab in which a run of `b` is queued."""
    with laboratory(database_url) as lab:
        lab.apply(workflow("b", "a"))
        lab.report("a", "1")
        lab.settle()
        yield lab
