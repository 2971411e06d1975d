"""What `freshline delivery` shows of deliveries, and skips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from freshline.cli.commands import delivery
from tests.cli.conftest import Freshline
from tests.store_harness import laboratory, workflow

SKIP = ("delivery", "skip", "queue", "1", "--reason")


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


def test_a_delivery_is_skipped_once(database_url: str, freshline: Freshline, tmp_path: Path) -> None:
    """The first reason stays, and a later one is not taken for it."""
    with laboratory(database_url) as lab:
        lab.apply(workflow("load", ["queue"]), sources=({"assetId": "queue", "mode": "append"},), root=tmp_path)
        lab.report("queue", "v1")
        for _ in range(2):
            assert "delivery 1 of queue is skipped" in freshline(*SKIP, "no amount").stderr
        again = freshline(*SKIP, "another").stderr
    assert "was skipped before, by " in again
    assert again.endswith(": no amount\n")
    assert "'2x' is not a whole number" in freshline("delivery", "skip", "queue", "2x", code=2).stderr
