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
            told = freshline(*SKIP, "no amount").stderr
            assert "delivery 1 of queue is skipped; consumers that have read it keep its rows" in told
        again = freshline(*SKIP, "another").stderr
    assert "was skipped before, by " in again
    assert again.endswith(": no amount\n")
    assert "'2x' is not a whole number" in freshline("delivery", "skip", "queue", "2x", code=2).stderr


def test_what_is_shown_of_an_append_source_is_its_newest_delivery(freshline: Freshline) -> None:
    """The rows are those of one file, and the line below them says so."""
    root = freshline.project
    (root / "sources" / "landing.yaml").write_text("{assetId: landing, mode: append, format: csv, path: in}\n")
    (root / "in").mkdir()
    assert "no workflow changes" not in freshline("apply", "--yes").stderr
    for number in (1, 2):
        (root / "in" / f"{number}.csv").write_text(f"n\n{number}\n")
        freshline("report", "landing", "--payload", f'{{"path": "in/{number}.csv"}}')
    shown = freshline("show", "landing")
    assert shown.stdout.split() == ["n", "2"]
    assert "(the newest delivery of a source): 1 row shown" in shown.stderr
    assert "no workflow changes (2 workflows as before); sources are stored" in freshline("apply", "--yes").stderr
