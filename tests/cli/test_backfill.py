"""`freshline backfill`: dry run, prompt, progress, strip, control, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cli.conftest import Freshline
from tests.scenarios.test_batches import batched
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
        lab.apply(batched("daily", {"raw": None}, DAYS), divided("total", {"daily": None}), sources=(SOURCE,))
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
    [row] = [line.split() for line in text.splitlines() if line.startswith("daily ")]
    assert row[1:5] == ["6", "2025-12-30", "2026-01-04", "6"], "from the oldest to the newest"
    found = freshline.json("backfill", "daily", "--from", "2025-12-30", "--batch", "4", "--dry-run")
    assert [(one["workflowSlug"], one["partitions"], one["runs"]) for one in found["parts"]] == [("daily", 6, 2)]
    assert found["downstream"] == [{"workflowSlug": "total", "partitions": 1}]
    begins = (datetime.now(UTC) + timedelta(days=2)).replace(microsecond=0)
    later = freshline("backfill", "daily", "--not-before", begins.isoformat(), "--dry-run").stdout
    assert f"not before {begins.astimezone():%Y-%m-%d %H:%M:%S}" in later
    assert "not before" not in text
    error = freshline("backfill", "daily", "--only", "stale", "--dry-run", code=2).stderr
    assert "asset 'daily' has no partition that is stale" in error
    assert lab.everything() == before


def test_a_run_of_a_batch_names_it(lab: Lab, freshline: Freshline) -> None:
    """The run that leads shows all partitions; the others name it, and show its log."""
    freshline("backfill", "daily", "--from", "2025-12-30", "--batch", "6", "--yes")
    turn(lab)
    run = lab.start()
    lab.store.runs.begin_step(run.id, run.attempt, "work", 1)
    lines = [{"step_id": "work", "stream": "log", "text": "INFO six days"}]
    lab.store.runs.append_logs(run.id, run.attempt, lines, after=0)
    lab.finish(run)
    other = next(str(one["id"]) for one in lab.runs() if one["batch_size"] and str(one["id"]) != run.id)
    assert "in one batch of 6 partitions: 2025-12-30, 2025-12-31, " in freshline("runs", run.id).stdout
    assert f"in the batch of run {run.id}, which has the steps and the log" in freshline("runs", other).stdout
    assert "INFO six days" in freshline("logs", other).stdout
    leader, member = (freshline.json("runs", one) for one in (run.id, other))
    assert (leader["batchId"], len(leader["partitionKeys"])) == (run.id, 6)
    assert (member["batchId"], member["partitionKeys"]) == (run.id, [member["partitionKey"]])


def test_a_batch_of_a_workflow_without_it_says_what_to_add(lab: Lab, freshline: Freshline) -> None:
    """Nothing is stored."""
    lab.apply(divided("daily", {"raw": None}, DAYS), divided("total", {"daily": None}), sources=(SOURCE,))
    error = freshline("backfill", "daily", "--batch", "6", "--yes", code=2).stderr
    assert "step 'work' does not compute several partitions in one run of 'daily'" in error
    assert "add 'batch: true'" in error
    assert freshline.json("backfill", "list", "--all") == []


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
    assert "1 of 5 (20 %) is done" in shown
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
    [event, *_] = [one for one in freshline("events").stdout.splitlines() if "backfill.progressed" in one]
    assert " of 5 done" in event
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
    assert (
        "is canceled; this needs one that is active or paused" in freshline("backfill", "resume", made, code=1).stderr
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("raw", 2, "is a source: nothing computes it"),
        ("dayly", 1, "did you mean 'daily'"),
        ("daily --from 2026-02-01", 2, "is after the last"),
        ("daily --from January", 2, "'January' is not"),
        ("daily --keys 2025-12-31,2026-01-06", 2, "is after the last"),
        ("daily --keys 2025-12-31 --from 2025-12-30", 2, "use one of them"),
        ("daily --only failed", 2, "`freshline partitions daily` lists those that exist"),
        ("daily --from 2026-01-02 --to 2025-12-30", 2, "the range ends before it begins"),
        ("daily --keys=", 2, "partition key '' is not a day"),
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


def test_a_partition_that_cools_down_is_tried_again_at_once(lab: Lab, freshline: Freshline) -> None:
    """It has not failed for good yet, and it does not have to: the cause of the failure may be gone."""
    made = freshline.json("backfill", "daily", "--keys", KEYS[0], "--yes")["id"]
    turn(lab)
    lab.fail(lab.start_of("daily"))
    lab.settle()
    assert lab.active("daily") == []
    shown = freshline("backfill", "show", made).stdout
    assert f"`freshline why daily --partition {KEYS[0]}` says what" in shown
    freshline("backfill", "retry", made)
    lab.settle()
    assert lab.active("daily") != []


def test_a_proposal_cannot_be_paused(lab: Lab, freshline: Freshline) -> None:
    """The error says what can be done with it."""
    flood(lab, "jobs:two")
    [found] = freshline.json("backfill", "list")
    error = freshline("backfill", "pause", found["id"], code=1).stderr
    assert "is proposed; this needs one that is active or paused" in error
    assert "shows how to approve or deny it" in error


def test_a_list_of_an_unknown_asset_is_an_error(lab: Lab, freshline: Freshline) -> None:
    """It is not an empty list."""
    assert "asset 'dayly'" in freshline("backfill", "list", "--asset", "dayly", code=1).stderr
    assert "no backfill is open" in freshline("backfill", "list", "--asset", "daily").stderr


def flood(lab: Lab, job: str) -> None:
    """Apply another job of a workflow of which three old partitions may run by themselves."""
    auto = {"onUpstreamUpdate": True, "partitions": {"limit": 3}}
    daily = divided("daily", {"raw": None}, DAYS, auto=auto, entrypoint=job)
    lab.apply(daily, divided("total", {"daily": None}), sources=(SOURCE,))
    lab.work()


def test_a_proposal_says_what_it_would_run_and_how_to_answer(lab: Lab, freshline: Freshline) -> None:
    """The list, the proposal with its reasons and cost, `why`, and the commands with the revision."""
    flood(lab, "jobs:two")
    listed = freshline("backfill", "list")
    [found] = freshline.json("backfill", "list")
    number = found["id"][-8:]
    assert "proposed" in listed.stdout
    assert f"1 proposal waits for an approval; `freshline backfill show {number}`" in listed.stderr
    text = freshline("backfill", "show", number).stdout
    assert "7 old partitions would run, and wait for an approval" in text
    assert "daily: 7 partitions, the code changed (version 2)" in text
    assert f"`freshline backfill approve {number} --revision 1` runs them" in text
    assert f"`freshline backfill deny {number} --revision 1`" in text
    assert freshline.json("backfill", "show", number)["cost"]["parts"][0]["runs"] == 7
    why = freshline("why", "daily", "--partition", KEYS[0]).stdout
    assert "its definition changed since the last success" in why
    assert "because more than 3 old partitions may run; `freshline backfill list` shows the proposal" in why
    sentence = f"backfill {number} of daily waits for an approval: 7 old partitions would run"
    assert sentence in freshline("status").stderr
    assert sentence in freshline("status", "daily").stderr
    assert sentence not in freshline("status", "total").stderr


def test_a_proposal_is_approved_or_denied(lab: Lab, freshline: Freshline) -> None:
    """As it was shown; an error says that it grew since."""
    flood(lab, "jobs:two")
    [found] = freshline.json("backfill", "list")
    number = found["id"][-8:]
    assert "revision 7 is named" in freshline("backfill", "deny", number, "--revision", "7", code=1).stderr
    assert "is denied" in freshline("backfill", "deny", number, "--revision", "1").stderr
    assert "is denied; this needs one that is proposed" in freshline("backfill", "approve", number, code=1).stderr
    lab.work()
    flood(lab, "jobs:three")
    [again] = freshline.json("backfill", "list")
    assert freshline.json("backfill", "approve", again["id"], "--yes")["status"] == "active"
    turn(lab)
    lab.work()
    assert freshline.json("backfill", "show", again["id"])["status"] == "finished"


@pytest.mark.parametrize("answer", ["approve", "deny"])
def test_an_answer_names_what_was_shown(lab: Lab, freshline: Freshline, answer: str) -> None:
    """Without a terminal a revision or --yes is needed; nothing is done otherwise."""
    flood(lab, "jobs:two")
    [found] = freshline.json("backfill", "list")
    number = found["id"][-8:]
    for words, why in (((), "no terminal can be asked"), (("--json",), "--json does not ask")):
        error = freshline("backfill", answer, number, *words, code=2).stderr
        assert why in error
        assert (
            f"`freshline backfill show {number}` shows the proposal, `--revision 1` answers what it lists now" in error
        )
    [same] = freshline.json("backfill", "list")
    assert same["status"] == "proposed"
    assert freshline.json("backfill", answer, number, "--yes")["status"] in {"active", "denied"}
    assert "this needs one that is proposed" in freshline("backfill", answer, number, code=1).stderr


@pytest.mark.parametrize("answer", ["approve", "deny"])
def test_an_answer_on_a_terminal_is_about_what_was_shown(
    lab: Lab, freshline: Freshline, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """The proposal is shown with its reasons and cost. If it grows before the yes, nothing is done."""
    flood(lab, "jobs:two")
    [found] = freshline.json("backfill", "list")
    number = found["id"][-8:]
    agrees = False

    def asked(_question: str, **_more: object) -> bool:
        if agrees:
            flood(lab, "jobs:three")
        return agrees

    monkeypatch.setattr("click.confirm", asked)
    monkeypatch.setattr("freshline.cli.commands.backfill._has_terminal", lambda: True)
    refused = freshline("backfill", answer, number, code=1)
    assert "nothing was changed" in refused.stderr
    for text in ("7 old partitions would run", "daily: 7 partitions, the code changed (version 2)", "ONE RUN"):
        assert text in refused.stdout
    assert "--revision" not in refused.stdout
    agrees = True
    error = freshline("backfill", answer, number, code=1).stderr
    assert "has revision 2, and revision 1 is named: it grew since, and nothing was changed" in error
    assert freshline.json("backfill", "show", number)["status"] == "proposed"
