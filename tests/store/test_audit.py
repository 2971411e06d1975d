"""Every change by a user is in the audit: who, what, before and after, in the transaction of the change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from freshline import failpoints
from freshline.failpoints import FailpointError
from freshline.store.operations.audit import MOST_NAMES, Actor, acting
from tests.store.test_failpoints import crash
from tests.store.transaction_cases import CASES, NAMES, WORKFLOWS, Scene
from tests.store_harness import Lab, laboratory, workflow

SOMEBODY = Actor("cli:ada@here")
# Transactions of services and workers. No user requests them; they are recorded in events, decisions and runs.
BY_THEMSELVES = {
    "absorb", "advance_backfill", "append_logs", "begin_step", "cancel_running", "claim_alerts", "claim_run",
    "claim_watches",
    "claim_webhook", "compact_deliveries", "evaluate_alerts", "fail_look", "fail_run", "finish_step", "fire_timers",
    "forget_snapshots", "give_up", "hand_back", "leave_worker", "log_table", "mark_failed", "note_looks",
    "propose_backfills", "prune", "publish_events", "publish_run", "reconcile", "record_alerts", "record_deliveries",
    "record_look",
    "register_worker", "release_watches", "renew_leases", "rescue", "retire_partitions",
    "stamp_positions", "sweep", "use_token",
}  # fmt: skip
CHANGES = sorted(set(NAMES) - BY_THEMSELVES)


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a source a -> b -> c."""
    with laboratory(database_url) as lab:
        lab.apply(*WORKFLOWS)
        yield lab


def entries(lab: Lab) -> list[Any]:
    """Return the audit entries, oldest first."""
    return lab.store.reader.audit(1000)[::-1]


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_leaves_an_entry(lab: Lab, name: str) -> None:
    """One, with who did it and what differs now."""
    case, scene = CASES[name], Scene(lab)
    case.prepare(scene)
    assert entries(lab) == []
    with acting(SOMEBODY):
        case.act(scene)
    # Reports that belong together are changes of several sources: each has the entry of its report.
    expected = ["report", "report"] if name == "report_together" else [name]
    found = entries(lab)
    assert [(one["who"], one["what"]) for one in found] == [(SOMEBODY.name, what) for what in expected]
    assert len({one["subject"] for one in found if one["subject"]}) == len(expected)
    assert all(one["before"] != one["after"] for one in found)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_does_not_happen_leaves_none(lab: Lab, name: str) -> None:
    """The process fails before the commit: neither is there."""
    case, scene = CASES[name], Scene(lab)
    case.prepare(scene)
    with acting(SOMEBODY), failpoints.armed(f"{name}:before", crash), pytest.raises(FailpointError):
        case.act(scene)
    assert entries(lab) == []


def test_what_services_do_is_not_in_it(lab: Lab) -> None:
    """A whole wave leaves nothing, as nobody is named."""
    lab.report("a", "1")
    assert lab.work() == ["b", "c"]
    assert entries(lab) == []


def test_apply_tells_what_it_changed_in_bounded_words(lab: Lab) -> None:
    """The first names and how many there are; how many workflows the project has, before and after."""
    with acting(SOMEBODY):
        lab.apply(
            workflow("b", "a", auto={"priority": 1}),
            WORKFLOWS[1],
            *(workflow(f"w{number:03}", "a") for number in range(MOST_NAMES + 5)),
        )
    (entry,) = entries(lab)
    assert (entry["subject"], entry["before"]["workflows"]) == ("lab", 2)
    added = entry["after"]["added"]
    assert (added["count"], len(added["first"])) == (MOST_NAMES + 5, MOST_NAMES)
    assert entry["after"]["changed"]["count"] >= 1


def test_a_repetition_that_changes_nothing_leaves_none(lab: Lab) -> None:
    """A report and a run with a key that is known, and a token that is revoked already."""
    changes: list[Callable[[], Any]] = [
        lambda: lab.store.operations.report("a", version="1", key="k"),
        lambda: lab.store.operations.request_run("b", key="r"),
        lambda: lab.store.tokens.revoke("t"),
    ]
    lab.store.tokens.create("t", "read", b"x" * 32, lifetime_ms=1000)
    with acting(SOMEBODY):
        for change in changes * 2:
            change()
    assert [one["what"] for one in entries(lab)] == ["report", "request_run", "revoke_token"]
