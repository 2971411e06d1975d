"""A kind whose package is not installed says what to install."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from freshline.definitions.schema.watch import watch_of
from freshline.watching.look import LookError, look
from tests.watching.looks import context

WATCHES = [
    ("sqlalchemy", "sql", {"sql": "SELECT 1", "url": {"env": "A"}}),
    ("confluent_kafka", "kafka", {"kafka": "t", "servers": "h:1"}),
    ("pyiceberg", "iceberg", {"iceberg": "a.b", "catalog": {"env": "A"}}),
]


@pytest.mark.parametrize(("package", "extra", "watch"), WATCHES)
def test_a_missing_package_is_named_with_its_extra(
    package: str, extra: str, watch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is that of one source; others are looked at."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(LookError, match=rf"is not installed \(pip install 'freshline\[{extra}\]'\)"):
        look(watch_of(watch), "append", None, context({"A": "x"}))
