"""`freshline backfill`: dry run, prompt, progress, strip, control, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cli.conftest import Freshline
from tests.scenarios.test_partitions import divided
from tests.store_harness import Lab, laboratory

SOURCE: dict[str, Any] = {"assetId": "raw", "partitioning": {"time": "day", "start": "2025-12-28", "end": "2026-01-05"}}
DAYS: dict[str, Any] = {"time": "day", "start": "2025-12-28", "end": "2026-01-05"}
KEYS = ["2025-12-28", "2025-12-29", "2025-12-30", "2025-12-31", "2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]


@pytest.fixture
def lab(database_url: str, freshline: Freshline) -> Iterator[Lab]:
    """Yield eight fresh days and their total."""
    # Runs of the lab must start after the requests of commands, which read the real clock.
    with laboratory(database_url, now=datetime.now(UTC) + timedelta(hours=1)) as lab:
        lab.apply(divided("daily", {"raw": None}, DAYS), divided("total", {"daily": None}), sources=(SOURCE,))
        for key in KEYS:
            lab.report("raw", "v1", partition_key=key)
        lab.work()
        yield lab


def turn(lab: Lab) -> None:
    """Let the backfiller give turns, and evaluate."""
    while lab.store.backfills.advance():
        lab.settle()


def test_a_dry_run_shows_the_cost_and_stores_nothing(lab: Lab, freshline: Freshline) -> None:
    """Partitions, runs, measured durations, and what runs because of it."""
    before = lab.everything()
    text = freshline("backfill", "daily", "--from", "2025-12-30", "--dry-run").stdout
    assert "backfill of daily: 6 partitions" in text
    assert "what reads them runs too, if its input changes: total (1)" in text
    found = freshline.json("backfill", "daily", "--from", "2025-12-30", "--batch", "4", "--dry-run")
    assert [(one["workflowSlug"], one["partitions"], one["runs"]) for one in found["parts"]] == [("daily", 6, 2)]
    assert found["downstream"] == [{"workflowSlug": "total", "partitions": 1}]
    assert lab.everything() == before


def test_without_a_terminal_it_needs_yes(lab: Lab, freshline: Freshline) -> None:
    """Nothing is started by accident."""
    assert "--yes starts the backfill" in freshline("backfill", "daily", code=2).stderr
    assert freshline.json("backfill", "list", "--all") == []


def test_a_backfill_from_start_to_end(lab: Lab, freshline: Freshline) -> None:
    """It is listed with its progress; the strip shows the oldest partition first."""
    made = freshline.json("backfill", "daily", "--from", "2025-12-31", "--yes", "--concurrency", "2", "--key", "k")
    again = freshline.json("backfill", "daily", "--from", "2025-12-31", "--yes", "--concurrency", "2", "--key", "k")
    assert (made["id"], made["status"], made["progress"]["total"]) == (again["id"], "active", 5)
    turn(lab)
    lab.finish(lab.start_of("daily"))
    lab.fail(lab.start_of("daily"))
    lab.settle()
    number = made["id"][-8:]
    shown = freshline("backfill", "show", number).stdout
    assert f"backfill {made['id']} of daily is active" in shown
    assert "1 of 5 (20 %) are done" in shown
    assert "daily  " in shown
    assert "■" in shown
    [line] = freshline("backfill", "list").stdout.splitlines()[1:]
    assert line.split()[:3] == [number, "daily", "active"]
    while lab.active("daily") or lab.store.backfills.find(made["id"])["status"] == "active":
        turn(lab)
        lab.live(hours=1)
        turn(lab)
        if lab.active("daily"):
            lab.finish(lab.start_of("daily"))
            lab.settle()
    followed = freshline("backfill", "show", made["id"], "--follow").stdout
    assert "5 of 5 (100 %)" in followed
    assert freshline.json("backfill", "list") == []
    assert [one["status"] for one in freshline.json("backfill", "list", "--all")] == ["finished"]
    runs = freshline.json("runs", "--trigger", "backfill", "--asset", "daily")
    assert {run["trigger"]["backfillId"] for run in runs} == {made["id"]}


def test_a_backfill_is_paused_resumed_and_canceled(lab: Lab, freshline: Freshline) -> None:
    """Each command says how it is then."""
    made = freshline.json("backfill", "daily", "--yes")["id"]
    turn(lab)
    assert freshline.json("backfill", "pause", made)["status"] == "paused"
    assert lab.active("daily") == []
    assert freshline.json("backfill", "resume", made[-8:])["status"] == "active"
    assert "is canceled" in freshline("backfill", "cancel", made, "--kill").stderr
    assert "is canceled; allowed are" in freshline("backfill", "resume", made, code=1).stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("raw", 2, "is a source: nothing computes it"),
        ("dayly", 1, "did you mean 'daily'"),
        ("daily --from 2026-02-01", 2, "is after the last"),
        ("daily --from January", 2, "'January' is not"),
        ("daily --keys 2025-12-31,2026-01-06", 2, "is after the last"),
        ("daily --keys 2025-12-31 --from 2025-12-30", 2, "use one of them"),
        ("daily --only failed", 2, "nothing is selected"),
        ("daily --not-before yesterday", 2, "'yesterday' is not a time"),
        ("total --from 2025-12-31", 2, "has no partitions"),
        ("show 5f0c11aa", 1, "backfill '5f0c11aa' does not exist"),
        ("cancel 019b8d8e-0f00-7000-8000-00005f0c11aa", 1, "does not exist"),
    ],
)
def test_a_wrong_request_is_an_error_and_stores_nothing(
    lab: Lab, freshline: Freshline, words: str, code: int, said: str
) -> None:
    """The error says what is allowed."""
    before = lab.everything()
    asked = words.split()
    yes = [] if asked[0] in {"show", "cancel"} else ["--yes"]
    assert said in freshline("backfill", *asked, *yes, code=code).stderr
    assert lab.everything() == before
