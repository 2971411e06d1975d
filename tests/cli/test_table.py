"""`freshline table`: versions, rollback, vacuum and repair, on real files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from freshline.storage import layout
from freshline.store.doctor.restore import MARK_FILE
from tests.cli.conftest import Freshline
from tests.delta.table import Table
from tests.store_harness import laboratory, workflow


@pytest.fixture
def table(freshline: Freshline, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    """Write three versions of the asset b: 1, then 1 and 2, then 9."""
    monkeypatch.setenv("FRESHLINE_WAREHOUSE", str(tmp_path / "w"))
    with laboratory(database_url, warehouse=str(tmp_path / "w"), now=datetime(2026, 1, 5, tzinfo=UTC)) as lab:
        layout.check_warehouse(lab.storage, lab.store.warehouse_id)
        lab.apply(workflow("b", "a"))
        table = Table(lab)
        table.publish(1)
        table.publish(2, append=True)
        table.publish(9)
        yield table


def test_versions_are_listed_with_what_differed(freshline: Freshline, table: Table) -> None:
    """Newest first; the current one is marked."""
    table.lab.rows(
        "UPDATE snapshots SET difference = %s WHERE sequence = 3 AND asset_id = 'b' RETURNING 1",
        '{"added": ["day date"], "columns": ["n", "delay"]}',
    )
    found = freshline.json("table", "versions", "b")["versions"]
    assert [(one["version"], one["tableVersion"], one["head"]) for one in found] == [
        (3, 2, True),
        (2, 1, False),
        (1, 0, False),
    ]
    text = freshline("table", "versions", "b").stdout
    assert "3 *" in text
    assert "+ day date; values of n, delay" in text
    assert "version 3 differs by + day date; values of n, delay" in freshline("why", "b").stdout


def test_rolling_back_makes_a_new_version_with_the_old_rows(freshline: Freshline, table: Table) -> None:
    """Once; a second time there is nothing to do. What is not there or not kept is refused."""
    assert freshline.json("table", "rollback", "b", "--to", "2")["version"] == 4
    shown = freshline.json("show", "b")
    assert [shown["version"], sorted(row["x"] for row in shown["rows"])] == [4, [1, 2]]
    again = freshline("table", "rollback", "b", "--to", "2").stderr
    assert "b is at version 4, as before, with the rows of version 2" in again
    assert "has no version 77" in freshline("table", "rollback", "b", "--to", "77", code=1).stderr
    assert "asset 'nobody' does not exist" in freshline("table", "rollback", "nobody", "--to", "1", code=1).stderr
    refused = freshline("table", "rollback", "b", "--partition", "2024-01-31", "--to", "1", code=2).stderr
    assert "asset 'b' has no partitions" in refused
    (event,) = [one for one in freshline.json("events", "--type", "asset.produced") if "rolledBackTo" in one["data"]]
    assert event["data"]["rolledBackTo"] == 2


def test_appended_rows_are_shown(freshline: Freshline, table: Table) -> None:
    """A version that was appended to another one is all its directories."""
    assert sorted(row["x"] for row in freshline.json("show", "b", "--version", "2")["rows"]) == [1, 2]
    assert [row["x"] for row in freshline.json("show", "b", "--version", "1")["rows"]] == [1]


def test_vacuum_marks_and_then_removes(freshline: Freshline, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once only what was marked before; a name or --all is needed."""
    monkeypatch.setenv("FRESHLINE_KEEP_VERSIONS", "1")
    monkeypatch.setenv("FRESHLINE_KEEP_TABLES_MS", "0")
    assert freshline.json("table", "vacuum", "b") == {"marked": 2, "removed": 0}
    table.lab.rows("UPDATE snapshots SET gone_at = gone_at - interval '1 hour' RETURNING 1")
    assert freshline.json("table", "vacuum", "--all") == {"marked": 0, "removed": 2}
    assert len(list((table.root / "data").iterdir())) == 1
    assert "is not kept any more" in freshline("table", "rollback", "b", "--to", "1", code=1).stderr
    assert "was collected" in freshline("show", "b", "--version", "1", code=1).stderr
    assert "name an asset, or use --all" in freshline("table", "vacuum", code=2).stderr


def test_repair_writes_the_log_anew(freshline: Freshline, table: Table) -> None:
    """Whatever was there; the data is not touched."""
    table.write()
    shutil.rmtree(table.root / "_delta_log")
    (table.root / "_delta_log").mkdir()
    (table.root / "_delta_log" / f"{0:020}.json").write_text("rubbish")
    assert freshline.json("table", "repair", "b") == {"assetId": "b", "tableVersion": 2}
    table.check()
    assert "has no table" in freshline("table", "repair", "a", code=1).stderr


def test_all_logs_are_repaired_after_a_restore(freshline: Freshline, table: Table) -> None:
    """The doctor finds a log that is newer than the database at once and names the command; then all is well.

    A table whose log cannot be written does not keep the others from being repaired.
    """
    table.write()
    log = table.root / "_delta_log"
    (log / f"{3:020}.json").write_bytes((log / f"{2:020}.json").read_bytes())
    found = freshline.json("doctor", code=1)["checks"]
    (wrong,) = [check for check in found if check["id"] == "delta-log" and check["count"]]
    assert wrong["found"] == ["the Delta log of 'b' has version 3; the newest version of the database is 2"]
    assert "`freshline table repair --all`" in wrong["remedy"]
    assert freshline.json("table", "repair", "--all") == {"repaired": ["b"], "cleared": [], "failed": {}}
    table.check()
    assert [check["count"] for check in freshline.json("doctor", code=1)["checks"] if check["id"] == "delta-log"] == [0]
    assert "the Delta logs of 1 table are right" in freshline("table", "repair", "--all").stderr
    assert "name an asset, or use --all" in freshline("table", "repair", code=2).stderr
    shutil.rmtree(log)
    log.write_text("no directory")
    assert list(freshline.json("table", "repair", "--all", code=1)["failed"]) == ["b"]


def test_a_restore_is_confirmed(freshline: Freshline, table: Table) -> None:
    """Once; a second time there is nothing to confirm."""
    mark = {"at": "2026-01-05T09:00:00+00:00", "position": 1_000_000, "event": "x", "revoked": []}
    (table.lab.warehouse / MARK_FILE).write_text(json.dumps(mark))
    table.lab.store.events.stamp_positions(1_000)
    wrong = {check["id"]: check for check in freshline.json("doctor", code=1)["checks"] if check["count"]}
    assert "the warehouse knows event x at position 1000000" in wrong["database-older"]["found"][0]
    assert freshline.json("db", "restored") == {"confirmed": True, "lostPosition": 1_000_000}
    assert json.loads((table.lab.warehouse / MARK_FILE).read_text())["position"] < 1_000_000
    assert "nothing to confirm" in freshline("db", "restored").stderr


def test_a_warehouse_of_others_is_refused(
    freshline: Freshline, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written or removed there (docs/semantics.md#R12.3)."""
    monkeypatch.setenv("FRESHLINE_WAREHOUSE", str(tmp_path / "other"))
    for words in (["repair", "b"], ["vacuum", "b"]):
        assert "is not the warehouse of this database" in freshline("table", *words, code=1).stderr
    assert not (tmp_path / "other").exists()
