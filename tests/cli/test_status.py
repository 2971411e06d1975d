"""`freshline status`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

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


@pytest.mark.parametrize("words", [["status"], ["status", "later"], ["why", "later"]])
def test_a_fresh_asset_below_a_failure_says_so(freshline: Freshline, shop: Rows, words: list[str]) -> None:
    """It is fresh, and newer data may not arrive. What is not below a failure does not say it."""
    shop.snapshot("bad", "b1")
    for name, source in (("later", "bad"), ("apart", "raw")):
        shop.workflow(f"make-{name}", [name], [source])
        shop.snapshot(name, "1", run_id=shop.run(f"make-{name}"))
        shop.partition(f"make-{name}", {source: {"bad": "b1", "raw": "r1"}[source]})
    text = freshline(*words).stdout
    assert "fresh, upstream failing" in text
    assert text.count("upstream failing") == 1


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


@pytest.fixture
def catalogue(rows: Rows) -> Rows:
    """Insert assets core.0 to core.5 and mart.0 to mart.5 of two projects; one of each fails."""
    rows.source("raw")
    rows.snapshot("raw", "r1")
    for project in ("core", "mart"):
        rows.insert("projects", name=project, code_hash="c0", applied_at=ago(60))
        for number in range(6):
            slug, asset = f"make-{project}-{number}", f"{project}.{number}"
            rows.workflow(slug, [asset], ["raw"], project=project)
            rows.snapshot(asset, "v1", run_id=rows.run(slug))
            rows.partition(slug, {"raw": "r1"}, **({"failures": 2} if number == 3 else {}))
    return rows


def names(found: Any) -> list[str]:
    """Return the assets of a status."""
    return [one["assetId"] for one in found["assets"]]


def test_the_first_line_is_a_summary(freshline: Freshline, catalogue: Rows) -> None:
    """How many are fresh, how many causes explain the others, and their states; of a pattern only what it matches."""
    first = freshline("status").stdout.splitlines()[0]
    assert first == "10 of 12 fresh; 2 causes explain the other 2 (2 failing)"
    assert freshline("status", "core.*").stdout.splitlines()[0] == "5 of 6 fresh (1 failing)"
    assert freshline.json("status")["summary"] == {
        "sentence": "10 of 12 fresh; 2 causes explain the other 2",
        "total": 12,
        "fresh": 10,
        "counts": {"fresh": 10, "failing": 2, "source": 1},
        "matched": 13,
        "causes": 2,
    }


def test_assets_are_chosen_by_state_and_project(freshline: Freshline, catalogue: Rows) -> None:
    """The workflows are those that produce them; the summary counts all that the name and the project stand for."""
    found = freshline.json("status", "--state", "failing")
    assert names(found) == ["core.3", "mart.3"]
    assert [one["slug"] for one in found["workflows"]] == ["make-core-3", "make-mart-3"]
    assert (found["summary"]["matched"], found["summary"]["fresh"]) == (2, 10)
    assert names(freshline.json("status", "*.3", "--state", "failing", "--of", "mart")) == ["mart.3"]
    both = freshline.json("status", "--of", "core", "--state", "failing", "--state", "fresh")
    assert names(both) == [f"core.{number}" for number in range(6)]
    assert both["summary"]["sentence"] == "5 of 6 fresh"
    assert "no asset is in such a state now" in freshline("status", "--state", "running").stderr


def test_a_listing_has_pages(freshline: Freshline, catalogue: Rows) -> None:
    """`next` is where the following page begins; a table says how to go on."""
    seen: list[str] = []
    after: list[str] = []
    while True:
        found = freshline.json("status", "--limit", "5", *after)
        seen += names(found)
        if found["next"] is None:
            break
        after = ["--after", found["next"]]
    assert seen == names(freshline.json("status"))
    told = freshline("status", "--limit", "5")
    assert "5 of 13 assets; `--limit N` shows more, `--after core.4` continues" in told.stderr
    assert len([line for line in told.stdout.splitlines() if line.startswith(("core.", "mart."))]) == 5


def test_a_table_of_many_assets_is_short_unless_asked(
    freshline: Freshline, catalogue: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON has all of them."""
    monkeypatch.setattr("freshline.cli.commands.status.USUAL", 3)
    assert "3 of 13 assets" in freshline("status").stderr
    assert len(names(freshline.json("status"))) == 13


def test_a_project_that_does_not_exist(freshline: Freshline, catalogue: Rows) -> None:
    """The error names similar ones."""
    told = freshline("status", "--of", "cor", code=1).stderr
    assert "project 'cor' does not exist" in told
    assert "did you mean 'core'" in told


def test_watching_in_a_pipe_leaves_no_asset_out(
    freshline: Freshline, catalogue: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of an asset that is not listed would be missed."""
    monkeypatch.setattr("freshline.cli.commands.status.USUAL", 3)

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("freshline.cli.status_watch.sleep", stop)
    assert len(freshline("status", "--watch", code=130).stdout.splitlines()) == 13


def test_retired_assets_are_shown_if_their_state_is_asked_for(freshline: Freshline, rows: Rows) -> None:
    """`--all` is not needed beside it."""
    rows.workflow("w", ["a"])
    rows.source("gone")
    rows.update("UPDATE assets SET unused_since = now(), source_project = NULL WHERE id = 'gone'")
    assert freshline.json("status")["retired"] == 1
    assert names(freshline.json("status", "--state", "retired")) == ["gone"]
