"""The first rows of a table over HTTP: texts of bounded length, by scope, and nothing else of the machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from freshline.api import rows
from freshline.errors import WarehouseError
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.storage import layout, preview
from tests.api.conftest import Api, serving
from tests.store_harness import Lab, laboratory, workflow

KINDS: dict[type[pl.DataType], str] = {
    pl.Int64: "long",
    pl.String: "string",
    pl.Float64: "double",
    pl.Boolean: "boolean",
}


class Tables:
    """The asset b, whose versions are written by hand, behind an API."""

    def __init__(self, lab: Lab, api: Api) -> None:
        self.lab = lab
        self.api = api
        self.runs = 0

    def publish(self, content: dict[str, list[Any]], *, append: bool = False) -> None:
        """Publish a version with these columns."""
        self.runs += 1
        self.lab.report("a", f"v{self.runs}")
        self.lab.settle()
        self.lab.store.runs.publish(run := self.lab.start(), [self._staged(run, pl.DataFrame(content), append=append)])

    def _staged(self, run: ClaimedRun, frame: pl.DataFrame, *, append: bool) -> StagedOutput:
        name = layout.staging_directory("b", run.id, 1, 1)
        directory = self.lab.warehouse / name
        directory.mkdir(parents=True)
        frame.write_parquet(directory / "part-0.parquet")
        fields = [
            {"name": column, "type": KINDS.get(type(kind), "string"), "nullable": True, "metadata": {}}
            for column, kind in frame.schema.items()
        ]
        return StagedOutput(
            "b",
            "work",
            run.id,
            location=layout.seal(self.lab.storage, name),
            schema={"type": "struct", "fields": fields},
            rows=frame.height,
            appended=append,
            based_on=self.lab.head("b")["sequence"] if append else None,
        )

    def rows(self, **params: Any) -> Any:
        """Return the answer for b."""
        return self.api.get("/assets/b/rows", **params)


@pytest.fixture
def tables(database_url: str, tmp_path: Path) -> Iterator[Tables]:
    """No version yet."""
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        layout.check_warehouse(lab.storage, lab.store.warehouse_id)
        lab.apply(workflow("b", "a"))
        with serving(lab) as api:
            yield Tables(lab, api)


def test_the_current_rows_are_texts(tables: Tables) -> None:
    """Numbers too: a browser would round those of 64 bits. What is null stays null."""
    tables.publish({"n": [2**60, None], "name": ["<b>x</b>", "ü"], "price": [0.5, 2.0], "ok": [True, False]})
    assert tables.rows() == {
        "assetId": "b",
        "partitionKey": "",
        "version": 1,
        "tableVersion": 0,
        "columns": [
            {"name": "n", "type": "BIGINT"},
            {"name": "name", "type": "VARCHAR"},
            {"name": "price", "type": "DOUBLE"},
            {"name": "ok", "type": "BOOLEAN"},
        ],
        "rows": [["1152921504606846976", "<b>x</b>", "0.5", "true"], [None, "ü", "2.0", "false"]],
        "truncated": False,
        "cut": False,
    }


def test_a_version_is_shown_as_it_was(tables: Tables) -> None:
    """Also one to which rows were added later, with a further column."""
    tables.publish({"n": [1]})
    tables.publish({"n": [2], "more": ["x"]}, append=True)
    assert tables.rows(version=1)["rows"] == [["1"]]
    now = tables.rows()
    assert [one["name"] for one in now["columns"]] == ["n", "more"]
    assert sorted(now["rows"]) == [["1", None], ["2", "x"]]
    assert tables.rows(limit=1)["truncated"] is True


def test_rows_columns_and_values_have_limits(tables: Tables) -> None:
    """100 rows, 100 columns, 500 characters; more is said to be there."""
    tables.publish({f"c{number:03}": ["x" * 501] * 101 for number in range(101)})
    found = tables.rows()
    assert (len(found["columns"]), len(found["rows"])) == (100, 100)
    assert {len(value) for row in found["rows"] for value in row} == {500}
    assert (found["truncated"], found["cut"]) == (True, True)
    tables.api.get("/assets/b/rows", limit=101, expect=422)
    tables.api.get("/assets/b/rows", version=0, expect=422)


def test_names_of_columns_are_only_names(tables: Tables) -> None:
    """A quote, a statement, and a function that reads files."""
    wild = ['a"b', "x; DROP VIEW preview", "read_text('/etc/passwd')"]
    tables.publish({name: ["1"] for name in wild})
    found = tables.rows()
    assert [one["name"] for one in found["columns"]] == wild
    assert found["rows"] == [["1", "1", "1"]]


def test_an_empty_table_has_columns(tables: Tables) -> None:
    """And no row."""
    tables.publish({"n": pl.Series([], dtype=pl.Int64).to_list()})
    assert tables.rows()["rows"] == []


def test_what_has_no_table_is_a_problem_that_says_so(tables: Tables) -> None:
    """A source, an asset with a payload only, one that was never produced, and one that does not exist."""
    tables.lab.report("a", "1", payload={"rows": 3})
    assert tables.api.get("/assets/a/rows", expect=409)["code"] == "no-table"
    assert "never produced" in tables.api.get("/assets/b/rows", expect=404)["detail"]
    tables.lab.work()
    assert tables.api.get("/assets/b/rows", expect=409)["detail"] == "version 1 of 'b' has no table, only a payload"
    assert "did you mean" in tables.api.get("/assets/bb/rows", expect=404)["detail"]


def test_a_damaged_file_is_a_problem_without_its_place_or_content(
    tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    """The log of the API has both."""
    tables.publish({"n": [1]})
    [file] = tables.lab.warehouse.rglob("*.parquet")
    file.write_bytes(b"canary-4711")
    found = tables.api.get("/assets/b/rows", expect=503)
    assert found["code"] == "rows-unreadable"
    assert "version 1 of 'b'" in found["detail"]
    assert str(tables.lab.warehouse) not in str(found)
    assert "canary" not in str(found)
    file.unlink()
    assert tables.api.get("/assets/b/rows", expect=503)["code"] == "rows-unreadable"


def test_rows_need_the_scope_data(tables: Tables) -> None:
    """`read` and `operate` are not enough; `--data`, `admin` and loopback are."""
    tables.publish({"n": [1]})
    for scope in ("read", "operate"):
        refused = tables.api.get("/assets/b/rows", headers=tables.api.token(scope), expect=403)
        assert refused["code"] == "data-needed"
    tables.api.get("/assets/b/rows", headers=tables.api.token("admin"))
    made = tables.api.client.post("/tokens", json={"name": "d", "data": True}, headers=admin(tables.api)).json()
    tables.api.get("/assets/b/rows", headers={"Authorization": f"Bearer {made['token']}"})


def admin(api: Api) -> dict[str, str]:
    """Return the header of the token that exists."""
    return {"Authorization": "Bearer freshline_admin"}


def test_reading_ends_in_time(tables: Tables) -> None:
    """A query that takes too long is interrupted."""
    tables.publish({"n": list(range(1000))})
    snapshot = tables.lab.store.reader.snapshot("b")
    with pytest.raises(WarehouseError, match="longer than 0 s"):
        preview.preview(str(tables.lab.warehouse), snapshot, 100, timeout_s=0.0)


def test_only_a_few_read_at_once(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait, and are then asked to try again."""
    tables.publish({"n": [1]})
    monkeypatch.setattr(rows, "_slots", threading.BoundedSemaphore(1))
    monkeypatch.setattr(rows, "WAIT_S", 0.05)
    with rows._slot():
        assert tables.api.get("/assets/b/rows", expect=429)["code"] == "rows-busy"
    tables.rows()


def test_reading_rows_leaves_no_trace_in_the_audit(tables: Tables) -> None:
    """It is no change."""
    tables.publish({"n": [1]})
    tables.rows()
    assert tables.lab.one("SELECT count(*) FROM audit WHERE what <> 'report'") == 0
