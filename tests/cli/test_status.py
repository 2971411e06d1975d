"""`freshline status`."""

from __future__ import annotations

from datetime import timedelta

import pytest

from freshline.cli.status_watch import changes
from freshline.errors import DatabaseError
from freshline.store.read.reader import Reader
from tests.cli.conftest import Freshline
from tests.rows import Rows, ago


@pytest.fixture
def shop(rows: Rows) -> Rows:
    """Insert a source raw -> clean, expired and held for a failing upstream; and a paused, failing workflow."""
    rows.source("raw")
    rows.workflow("make-clean", ["clean"], ["raw"])
    rows.workflow("make-bad", ["bad"], ["clean"], paused_at=ago(5), paused_until=ago(-3600))
    rows.snapshot("raw", "r1")
    rows.snapshot("clean", "c1", run_id=rows.run("make-clean"), rows=12345, bytes=2048)
    rows.partition("make-clean", {"raw": "r1"})
    rows.insert("timers", asset_id="clean", partition_key="", kind="expiry", expired_at=ago(3), expired_reason="ttl")
    rows.consideration("make-clean", due=30, hold="waiting-for-upstream", blocker_id=rows.ids["make-bad"])
    rows.partition("make-bad", failures=5, eligible_at=ago(0) + timedelta(minutes=2), breaker_at=ago(9))
    return rows


def test_json_has_the_fields_of_the_contract(freshline: Freshline, shop: Rows) -> None:
    """Assets and workflows as programs rely on them."""
    found = freshline.json("status")
    assets = {one["assetId"]: one for one in found["assets"]}
    wanted = {"assetId", "state", "producedAt", "expiresAt", "dataVersion", "version", "lastAutoRun"}
    assert wanted | {"nextRefreshAt", "hold"} <= assets["clean"].keys()
    assert {name: one["state"] for name, one in assets.items()} == {
        "raw": "source",
        "clean": "waiting",
        "bad": "failing",
    }
    assert assets["clean"]["hold"] == {"reason": "waiting-for-upstream", "until": None, "blocker": "make-bad"}
    bad = next(one for one in found["workflows"] if one["slug"] == "make-bad")
    assert {"slug", "workflowVersion", "paused", "inFlight", "runsAvoided"} <= bad.keys()
    assert bad["cooldown"]["failures"] == 5
    assert bad["breaker"]["state"] == "open"
    assert bad["paused"]["until"]


def test_overview_tells_it_in_a_table(freshline: Freshline, shop: Rows) -> None:
    """States, age, expiry, holds in words, failures, breaker and pause."""
    text = freshline("status").stdout
    for part in ("waiting for upstream make-bad", "expired", "12,345", "5, again in", "open", "until ", "source"):
        assert part in text


@pytest.mark.parametrize("name", ["clean", "make-clean"])
def test_detail_of_an_asset_or_a_workflow(freshline: Freshline, shop: Rows, name: str) -> None:
    """One name shows the asset and its workflow in full."""
    text = freshline("status", name).stdout
    for part in ("clean", "workflow make-clean", "2.0 KB", "last automatic run", "next refresh"):
        assert part in text
    assert "make-bad" not in text.replace("waiting for upstream make-bad", "")


def test_nothing_applied_and_nobody_there(freshline: Freshline, rows: Rows) -> None:
    """An empty installation says what to do; queued work without a worker is noted."""
    assert "freshline apply" in freshline("status").stderr
    rows.workflow("w", ["a"])
    rows.run("w", "queued")
    assert "no worker of project shop is running" in freshline("status").stderr


def test_changes_of_a_watched_status(freshline: Freshline, rows: Rows) -> None:
    """All assets at first, then those whose state, version or hold changed, in a line each."""
    rows.source("s")
    rows.workflow("w", ["a"], ["s"])
    before = freshline.json("status")
    assert [one.asset["assetId"] for one in changes(None, before)] == ["a", "s"]
    assert list(changes(before, before)) == []
    rows.snapshot("s", "v1")
    (changed,) = changes(before, freshline.json("status"))
    assert (changed.asset["assetId"], changed.asset["version"]) == ("s", 1)


def test_watching_in_a_pipe_prints_changes(freshline: Freshline, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines for people, or JSON lines; an outage is told and survived, and an interruption ends it."""
    rows.source("s")
    turns = iter(["change", "outage", "end", "end"])

    def turn(_: float) -> None:
        match next(turns):
            case "change":
                rows.snapshot("s", "v1")
            case "outage":
                monkeypatch.setattr(Reader, "status", lost)
            case "end":
                raise KeyboardInterrupt

    def lost(*_: object, **__: object) -> None:
        raise DatabaseError("the server is away")

    monkeypatch.setattr("freshline.cli.status_watch.sleep", turn)
    found = freshline("status", "--watch", code=130)
    assert [line.split(" ", 1)[1] for line in found.stdout.splitlines()] == ["s source", "s source version 1"]
    assert "no answer, trying again: the server is away" in found.stderr
