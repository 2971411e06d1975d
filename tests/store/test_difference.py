"""The difference between two versions of a table."""

from __future__ import annotations

from typing import Any

import pytest

from freshline.cli.render.format import differing
from freshline.model.run import StagedOutput
from freshline.store.tables.difference import difference


def table(columns: str, rows: int | None = 2, **tallies: int) -> dict[str, Any]:
    """Return a version with columns such as `a:int b:string`, and their tallies."""
    fields = [{"name": name, "type": kind} for name, kind in (one.split(":") for one in columns.split())]
    return {
        "schema": {"type": "struct", "fields": fields},
        "rows": rows,
        "location": {"fingerprint": {"columns": tallies}},
    }


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (table("a:int b:int"), table("a:int b:int"), ""),
        (table("a:int b:int"), table("b:int a:int"), "columns in the order b, a"),
        (table("a:int b:int"), table("a:int c:int b:int"), "+ c int"),
        (table("a:int b:int c:int"), table("a:int c:int"), "- b int"),
        (table("a:int b:int"), table("a:long b:int"), "a int -> long"),
        (table("a:int", 2, a=1), table("a:int", 4, a=1), "rows 2 -> 4"),
        (table("a:int", 2, a=1), table("a:int", 3, a=2), "rows 2 -> 3; values of a"),
        (table("a:int", None), table("a:int", 3), ""),
    ],
)
def test_what_differs_is_told(before: dict[str, Any], now: dict[str, Any], said: str) -> None:
    """Columns, their types and order, rows that came in pairs, and whose values are others."""
    assert differing(difference(before, StagedOutput("b", "work", "v", **now)) or {}) == said
