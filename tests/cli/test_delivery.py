"""What `freshline delivery list` shows of a delivery."""

from __future__ import annotations

from typing import Any

import pytest

from freshline.cli.commands import delivery


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"path": "in/a.csv", "payload": {"path": "in/a.csv"}}, "in/a.csv"),
        ({"dataVersion": "v7", "payload": None}, "v7"),
        ({"payload": {"to": "7", "from": None}}, '{"from": null, "to": "7"}'),
        ({"payload": None}, ""),
        ({"payload": "x" * 300}, '"' + "x" * 199 + "..."),
    ],
)
def test_a_delivery_without_a_path_shows_its_payload(given: dict[str, Any], shown: str) -> None:
    """Those of queries and topics have nothing else; a long one is cut."""
    one: Any = {"number": 1, "reportedAt": "2026-01-05T09:00:00+00:00", "dataVersion": None, "path": None, **given}
    assert delivery._cells(one)[2] == shown
