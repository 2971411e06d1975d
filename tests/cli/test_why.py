"""`freshline why`."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pytest

from freshline.cli.render.decisions import sentence, vectors, when
from freshline.model.enums import Outcome, Reason
from tests.cli.conftest import Freshline
from tests.rows import Rows

LATER = datetime.now().astimezone().replace(hour=23, minute=1, second=2, microsecond=0).isoformat()
CHANGED = [
    {"assetId": "raw", "from": "v1", "to": "v2", "changed": True, "triggers": True},
    {"assetId": "side", "from": "s1", "to": "s1", "changed": False, "triggers": True},
]

SENTENCES: dict[Reason, tuple[str, dict[str, Any], str]] = {
    Reason.MISSING: ("run", {"assetId": "a"}, "run: 'a' was never produced"),
    Reason.RETRY: (
        "run",
        {"cause": "upstream-update", "inputs": CHANGED},
        "run: tried again after a failure; 'raw' changed (v1 -> v2)",
    ),
    Reason.DEFINITION_CHANGED: ("run", {}, "run: its definition changed since the last success"),
    Reason.UPSTREAM_UPDATE: ("run", {"inputs": CHANGED}, "run: 'raw' changed (v1 -> v2)"),
    Reason.EXPIRED: (
        "run",
        {"assetId": "a", "expiry": {"reason": "ttl", "expiresAt": LATER}},
        "run: the freshness of 'a' ran out at 23:01:02 (ttl)",
    ),
    Reason.BACKFILL: (
        "run",
        {"assetId": "a", "backfillId": "0198c000-0000-7000-8000-0000000000bb"},
        "run: backfill 0198c000-0000-7000-8000-0000000000bb demands 'a'",
    ),
    Reason.BACKFILL_PROPOSED: (
        "hold",
        {"backfillId": "0198c000-0000-7000-8000-0000000000bb", "limit": 3},
        (
            "held: it waits for an approval, because more than 3 old partitions would run;"
            " `freshline backfill show 000000bb` shows it"
        ),
    ),
    Reason.INPUT_MISSING: ("hold", {"missing": ["raw", "side"]}, "held: 'raw' and 'side' do not exist yet"),
    Reason.INPUT_RETIRED: (
        "hold",
        {"retired": ["raw@2026-01-01", "raw@2026-01-02"], "retiredCount": 24},
        (
            "held: retention has removed 'raw@2026-01-01', 'raw@2026-01-02' and 22 more, and a run would lack these"
            " rows; `freshline backfill ASSET --keys KEY --partial` computes it from what is left"
        ),
    ),
    Reason.FROZEN: (
        "hold",
        {"frozenAt": LATER},
        (
            "held: it is frozen since 23:01:02: it is older than `frozenAfter`, so that only a backfill or"
            " `freshline run` computes it"
        ),
    ),
    Reason.IN_FLIGHT: (
        "hold",
        {"runId": "0198c000-0000-7000-8000-0000000000aa", "runStatus": "queued", "renewed": True},
        "held: its run 000000aa is already queued; that run will read the new data",
    ),
    Reason.PAUSED: (
        "hold",
        {"until": LATER},
        "held: it is paused until 23:01:02; `freshline resume w` ends that",
    ),
    Reason.BREAKER_OPEN: (
        "hold",
        {"failures": 5, "nextProbeAt": LATER},
        "held: its breaker is open after 5 failures; the next try is at 23:01:02; `freshline reset w` closes it",
    ),
    Reason.COOLING_DOWN: (
        "hold",
        {"failures": 1, "until": LATER},
        "held: it cools down after 1 failure until 23:01:02",
    ),
    Reason.CANCELED: (
        "hold",
        {},
        (
            "held: a run with exactly these versions was canceled; "
            "new data, `freshline run w` or `freshline reset w` ends that"
        ),
    ),
    Reason.QUIET_HOURS: ("hold", {"until": LATER}, "held: it has quiet hours until 23:01:02"),
    Reason.INPUT_TOO_OLD: (
        "hold",
        {"assetId": "raw", "producedAt": LATER, "maxAgeMs": 3_600_000},
        "held: its input 'raw' is too old (produced 23:01:02; at most 1.0 h are allowed)",
    ),
    Reason.WAITING_FOR_ALL: (
        "hold",
        {"waitingFor": ["side"]},
        "held: it runs when all inputs moved; 'side' did not yet",
    ),
    Reason.WAITING_FOR_UPSTREAM: (
        "hold",
        {"blockers": [{"workflowSlug": "b", "motion": "running", "until": None}], "deadline": LATER},
        "held: waiting for upstream workflow 'b', which is running, until 23:01:02 at the latest",
    ),
    Reason.DEBOUNCING: ("hold", {"until": LATER}, "held: it lets updates settle until 23:01:02"),
    Reason.MIN_INTERVAL: ("hold", {"until": LATER}, "held: it ran a short time ago; not again before 23:01:02"),
    Reason.UP_TO_DATE: ("skip", {}, "nothing to do: it was computed from exactly the current inputs"),
    Reason.POLICY_OFF: ("skip", {}, "nothing to do: its autoMaterialize is switched off"),
    Reason.NOT_AUTO: (
        "skip",
        {},
        "nothing to do: it has no autoMaterialize block, so it runs only when asked to",
    ),
    Reason.EVALUATION_FAILED: ("error", {"error": "odd"}, "error: it could not be decided: odd"),
}


def decided(reason: str, outcome: str, evidence: dict[str, Any]) -> Any:
    """Return the fields of a decision that matter here, as the reader returns them."""
    return {
        "workflowSlug": "w",
        "partitionKey": "",
        "outcome": outcome,
        "reason": reason,
        "evidence": evidence,
        "at": LATER,
        "runId": None,
    }


def test_a_proposed_partition_says_what_made_it_stale() -> None:
    """Before there is a proposal, it does not wait for an approval: it may run after all."""
    evidence = {"limit": 3, "cause": "upstream-update", "inputs": CHANGED}
    first = sentence(decided(Reason.BACKFILL_PROPOSED, "hold", evidence))
    assert first == (
        "held: 'raw' changed (v1 -> v2); it is held, because more than 3 old partitions may run;"
        " `freshline backfill list` shows the proposal once there is one"
    )
    listed = {**evidence, "backfillId": "0198c000-0000-7000-8000-0000000000bb"}
    assert sentence(decided(Reason.BACKFILL_PROPOSED, "hold", listed)) == (
        "held: 'raw' changed (v1 -> v2); it waits for an approval, because more than 3 old partitions would run;"
        " `freshline backfill show 000000bb` shows it"
    )


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_sentence(reason: Reason) -> None:
    """What was decided, why, until when and what ends it, for each reason code."""
    outcome, evidence, wanted = SENTENCES[reason]
    assert sentence(decided(reason, outcome, evidence)) == wanted


@pytest.mark.parametrize("reason", list(Reason))
def test_no_reason_needs_evidence(reason: Reason) -> None:
    """Evidence that is bounded, or from another version, never breaks the answer."""
    outcome = SENTENCES[reason][0]
    assert Outcome(outcome)
    told = sentence(decided(reason, outcome, {}))
    assert len(told) > len(reason)
    assert "None" not in told


@pytest.mark.parametrize(
    ("reason", "evidence", "text"),
    [
        (Reason.MISSING, {}, "run: 'a@2026-01-04' was never produced"),
        (Reason.RETRY, {"cause": "missing"}, "run: tried again after a failure; 'a@2026-01-04' was never produced"),
        (Reason.EXPIRED, {"expiry": {"reason": "ttl"}}, "run: the freshness of 'a@2026-01-04' ran out (ttl)"),
        (Reason.BACKFILL, {"backfillId": "b"}, "run: backfill b demands 'a@2026-01-04'"),
    ],
)
def test_a_decision_about_a_partition_names_the_partition(reason: Reason, evidence: dict[str, Any], text: str) -> None:
    """Its output is `asset@key`, as its inputs are."""
    found = decided(reason, "run", {"assetId": "a", **evidence}) | {"partitionKey": "2026-01-04"}
    assert sentence(found) == text


def test_what_a_run_did_not_wait_for_and_other_holds_are_told() -> None:
    """A mix is told with its blockers, and so are all holds that match."""
    passed = {"waitedOut": [{"workflowSlug": "b", "motion": "cooling-down", "until": LATER}]}
    told = sentence(decided("upstream-update", "run", {"inputs": CHANGED, **passed}))
    assert "did not wait any longer for workflow 'b', which is held: cooling down until 23:01:02" in told
    assert "read a mix" in told
    held = sentence(decided("paused", "hold", {"alsoHeldBy": ["cooling-down", "debouncing"]}))
    assert held.endswith("also held by cooling down and debouncing")


def test_what_was_denied_is_not_up_to_date_with_its_inputs() -> None:
    """The partition is stale, and stays so until something else changes or somebody runs it."""
    found = decided("up-to-date", "skip", {"accepted": True}) | {"partitionKey": "2026-01-04"}
    told = sentence(found)
    assert "its changes were denied with a proposal" in told
    assert "--partition 2026-01-04` runs it anyway" in told


def test_many_partitions_that_a_run_did_not_wait_for_are_counted() -> None:
    """A total may read a year of days of which most wait for an approval."""
    passed = [
        {"workflowSlug": "b", "motion": "backfill-proposed", "partitionKey": f"2026-01-{n:02}"} for n in range(1, 21)
    ]
    told = sentence(decided("upstream-update", "run", {"inputs": CHANGED, "waitedOut": passed}))
    assert "workflow 'b@2026-01-03', which is held: backfill proposed and 17 more, so it may read a mix" in told
    assert "2026-01-04" not in told


def test_a_reason_of_a_later_version_is_shown_as_it_is() -> None:
    """An unknown code is told, not hidden."""
    assert sentence(decided("moon-phase", "hold", {})) == "held: moon-phase"


def test_repeats_and_vectors() -> None:
    """Counted decisions say how often; the versions stand side by side."""
    decision = decided("paused", "hold", {"inputs": CHANGED}) | {"count": 3, "lastAt": LATER}
    assert when(decision) == "23:01:02 (3x, last 23:01:02)"
    assert vectors(decision) == [("raw", "v1", "v2", "changed"), ("side", "s1", "s1", "the same")]


@pytest.mark.parametrize("name", ["why", "why-not"])
def test_the_command_answers_for_assets_and_slugs(freshline: Freshline, rows: Rows, name: str) -> None:
    """The sentence, the evidence, the state; with --json the decisions."""
    rows.source("raw")
    rows.workflow("w", ["a"], ["raw"])
    run_id = rows.run("w")
    rows.decision("w", "run", "upstream-update", evidence={"inputs": CHANGED}, run_id=run_id)
    for asked in ("a", "w"):
        text = freshline(name, asked).stdout
        assert "a is missing" in text
        assert "run: 'raw' changed (v1 -> v2)" in text
        assert run_id[-8:] in text
        assert re.search(r"side +s1 +s1 +the same", text)
    (found,) = freshline.json(name, "a")
    wanted = {"id", "workflowSlug", "partitionKey", "outcome", "reason", "at", "evidence", "runId"}
    assert wanted <= found.keys()


def test_sources_and_undecided_assets_are_explained(freshline: Freshline, rows: Rows) -> None:
    """No decision is an answer too."""
    rows.source("raw")
    rows.workflow("w", ["a"])
    assert "raw is a source" in freshline("why", "raw").stderr
    told = freshline("why", "a")
    assert "nothing was decided about a yet" in told.stderr
    assert "no materializer is running" in told.stdout
    assert "start `freshline materializer`, or `freshline dev`" in told.stdout
    rows.worker("materializer")
    assert "no materializer" not in freshline("why", "a").stdout
    assert freshline.json("why", "raw") == []
