"""`freshline doctor`: text and an exit code for people, one JSON document for programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from freshline.delta.examine import DELTA_LOG
from freshline.services.materializer import Materializer
from freshline.settings import load
from freshline.storage import layout
from freshline.storage.base import storage_at
from freshline.store.db.ids import new_id
from freshline.store.doctor.checks import STORE_CHECKS
from freshline.store.doctor.warehouse import WAREHOUSE_CHECKS
from freshline.store.store import Store
from tests.cli.conftest import Freshline
from tests.store.test_doctor_warehouse import age, forgotten_run
from tests.waiting import wait_until

ALL = [check.id for check in (*STORE_CHECKS, *WAREHOUSE_CHECKS, DELTA_LOG)]


@pytest.fixture
def execute(database_url: str) -> Callable[..., None]:
    """Execute SQL on the database."""

    def run(*statements: str) -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    return run


def test_a_new_installation_is_healthy(applied: Freshline) -> None:
    """Exit code 0, all checks were made, and the one note says what is missing: a materializer."""
    result = applied("doctor")
    assert result.stderr == f"{len(ALL)} checks, all is well\n"
    assert "\n  2 workflows are due and no materializer is running\n" in result.stdout
    found = applied.json("doctor")
    assert found["healthy"]
    assert [check["id"] for check in found["checks"]] == ALL
    assert [check["id"] for check in found["checks"] if check["count"]] == ["attendance"]
    assert abs(found["clockAheadMs"]) < 2000
    assert found["materializers"] == []


def test_what_is_wrong_is_told_and_what_to_do(applied: Freshline, execute: Callable[..., None]) -> None:
    """Exit code 1, severity, meaning, the sentence and the remedy; --fix repairs it and ends with 0."""
    execute("DELETE FROM considerations")
    result = applied("doctor", code=1)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("error forgotten: expected: a stale workflow has an active run")
    assert lines[1] == "  workflow 'make-clean' is stale and no evaluation of it is planned"
    assert lines[3].startswith("  what to do: `freshline doctor --fix` has it evaluated")
    assert result.stderr == f"{len(ALL)} checks, 1 found something\n"
    result = applied("doctor", "--limit", "1", code=1)
    assert result.stdout.splitlines()[2] == "  … and 1 more"
    result = applied("doctor", "--fix")
    assert result.stderr == f"repaired: forgotten\n{len(ALL)} checks, all is well\n"
    assert applied.json("doctor", "--fix")["repaired"] == []


def test_what_cannot_be_repaired_stays_wrong(applied: Freshline, execute: Callable[..., None]) -> None:
    """--fix repairs what it can and still ends with 1, and says what is left."""
    execute("DELETE FROM considerations", "DROP INDEX runs_concurrency_slots")
    found = applied.json("doctor", "--fix", code=1)
    assert found["repaired"] == ["forgotten"]
    (left,) = [check for check in found["checks"] if check["count"] and check["severity"] == "error"]
    assert left == {
        "id": "index-missing",
        "severity": "error",
        "meaning": left["meaning"],
        "count": 1,
        "found": ["the unique index runs_concurrency_slots on runs is missing, invalid or different"],
        "remedy": left["remedy"],
        "fixable": False,
    }


def test_leftovers_in_the_warehouse_are_removed(applied: Freshline, store: Store) -> None:
    """A warning, exit code 1 without --fix, and gone with it."""
    warehouse = store.settings.warehouse_at
    layout.check_warehouse(storage_at(warehouse), store.warehouse_id)
    directory = Path(warehouse, layout.staging_directory("shop.clean", forgotten_run(), 1, 1))
    directory.mkdir(parents=True)
    age(directory)
    assert "warning staging-leftover" in applied("doctor", code=1).stdout
    assert applied.json("doctor", "--fix")["repaired"] == ["staging-leftover"]
    assert not directory.exists()


def test_a_database_that_is_behind_is_a_finding(freshline: Freshline, execute: Callable[..., None]) -> None:
    """No other check can be made; the sentence says which command helps."""
    execute("DELETE FROM freshline_migrations")
    found = freshline.json("doctor", code=1)
    assert [check["id"] for check in found["checks"]] == ["schema"]
    assert "run `freshline db upgrade`" in found["checks"][0]["found"][0]


def test_a_materializer_at_work_is_healthy_and_shown(applied: Freshline, store: Store) -> None:
    """It says with its heartbeat what it works with, and the doctor finds nothing while it works."""
    applied("report", "shop.raw")
    materializer = Materializer(store, load())
    materializer.start()
    try:
        shown: list[dict[str, Any]] = wait_until(lambda: applied.json("doctor")["materializers"])
    finally:
        materializer.stop()
    own = store.evaluation.summary()
    assert {key: shown[0][key] for key in own} == own


class TestReady:
    """`freshline doctor --ready`: the answer of /readyz without HTTP."""

    def test_a_new_installation_is_ready(self, applied: Freshline) -> None:
        """Exit code 0 and each check in a line, or one document."""
        assert applied("doctor", "--ready").stderr.splitlines() == ["database: ok", "schema: ok", "absorber: ok"]
        found = applied.json("doctor", "--ready")
        assert (found["ready"], [one["name"] for one in found["checks"]]) == (True, ["database", "schema", "absorber"])

    def test_the_check_that_fails_is_named(
        self, applied: Freshline, execute: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A change that waits, a schema that is too new, a database that is away; 0 turns the first off."""
        applied("report", "shop.raw")
        execute("UPDATE inbox SET at = at - interval '5 min'")
        assert "absorber: the oldest change has waited for 5.0 min" in applied("doctor", "--ready", code=1).stderr
        monkeypatch.setenv("FRESHLINE_READY_LAG_MS", "0")
        assert "absorber: ok" in applied("doctor", "--ready").stderr
        execute("INSERT INTO freshline_migrations (version, name, breaking) VALUES (99, 'x', true)")
        assert [one["name"] for one in applied.json("doctor", "--ready", code=1)["checks"]] == ["schema"]
        monkeypatch.setenv("FRESHLINE_DATABASE_URL", "postgresql://127.0.0.1:1/nowhere")
        assert "database: " in applied("doctor", "--ready", code=1).stderr

    def test_a_process_of_this_host_is_there_or_not(self, applied: Freshline, store: Store) -> None:
        """One of that kind that announced itself lately."""
        assert "worker: no worker on" in applied("doctor", "--ready", "--process", "worker", code=1).stderr
        store.processes.register(new_id(), "worker", project="shop", code_hash=None, info={})
        assert "worker: ok" in applied("doctor", "--ready", "--process", "worker").stderr
        assert "no api on" in applied("doctor", "--ready", "--process", "api", code=1).stderr
        assert "--process goes with --ready" in applied("doctor", "--process", "api", code=2).stderr
