"""Incidents and messages on the real store: failures, breakers, late data, restarts and changed rules."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from freshline.errors import ConflictError, NotFoundError, UsageError
from tests.alerts.conftest import EVERYTHING, break_, look, rule, told
from tests.scenarios.test_partitions import divided
from tests.store_harness import Lab, project, workflow

HOUR = 3_600_000


def test_a_failing_workflow_is_one_alert_and_one_all_clear(lab: Lab) -> None:
    """Its next failures, its breaker and its relapse say nothing more; the all-clear comes after `clearAfter`."""
    lab.store.alerts.add(rule())
    lab.report("a", "1")
    lab.work()
    assert told(lab) == []
    break_(lab, "a")
    assert told(lab) == [("alert", "b")]
    for _ in range(6):
        lab.live(hours=2)
        while (run := lab.claim()) is not None:
            lab.fail(run)
        assert told(lab) == [("alert", "b")]
    assert lab.state("b")["breaker_at"] is not None
    (incident,) = lab.rows("SELECT * FROM alert_incidents")
    assert set(incident["kinds"]) == {"failing", "breaker"}
    assert incident["error"] == "boom"
    assert incident["assets"] == ["b"]
    lab.store.operations.reset("b")
    assert told(lab) == [("alert", "b")]
    lab.advance(seconds=61)
    assert told(lab) == [("alert", "b"), ("clear", "b")]
    assert lab.one("SELECT count(*) FROM alert_incidents WHERE done_at IS NULL") == 0


def test_late_descendants_belong_to_the_failing_root(lab: Lab) -> None:
    """The data of `d` is overdue because `b` fails. Alone, it is an incident of its own."""
    late = workflow("d", "c", freshness={"maxAgeMs": HOUR})
    lab.apply(workflow("b", "a"), workflow("c", "b"), late)
    lab.store.alerts.add(rule())
    lab.store.alerts.add(rule("late", on="overdue", assets="d"))
    lab.report("a", "1")
    lab.work()
    break_(lab, "a")
    lab.live(hours=2)
    assert [(one["name"], one["kind"], one["root"]) for one in look(lab)] == [
        ("all", "alert", "workflow:b"),
        ("late", "alert", "workflow:b"),
    ]
    (shown,) = lab.rows("SELECT i.* FROM alert_incidents i JOIN alert_rules r ON r.id = i.rule_id WHERE r.name = 'all'")
    assert set(shown["members"]) == {"workflow:b", "workflow:d"}


def test_assets_that_wait_for_one_silent_source_are_one_alert(lab: Lab) -> None:
    """Nothing fails: the source was not reported."""
    promised = {"maxAgeMs": HOUR}
    lab.apply(*(workflow(slug, "a", freshness=promised) for slug in ("b", "c", "d")))
    lab.store.alerts.add(rule())
    lab.report("a", "1")
    lab.work()
    lab.live(hours=2)
    assert told(lab) == [("alert", "a")]
    lab.report("a", "2")
    lab.work()
    told(lab)
    lab.live(minutes=2)
    assert told(lab) == [("alert", "a"), ("clear", "a")]


def test_consumers_of_a_broken_source_are_one_alert(lab: Lab) -> None:
    """All six fail since the same report with the same kind of error; a failure of another kind is its own."""
    lab.apply(*(workflow(f"w{number}", "a") for number in range(6)), workflow("other", "a"))
    lab.store.alerts.add(rule())
    lab.report("a", "1")
    lab.work()
    lab.report("a", "2")
    lab.settle()
    while (run := lab.claim()) is not None:
        lab.fail(run, "KeyError: 'x'" if run.slug == "other" else f"jobs/{run.slug}.py:3: OSError: no such path")
        told(lab)
    assert sorted(kind for kind, _ in told(lab)) == ["alert", "alert"]
    assert lab.one("SELECT max(cardinality(members)) FROM alert_incidents") == 6


def test_a_failed_check_is_a_kind_of_its_own(lab: Lab) -> None:
    """A rule on `check-failed` does not hear of other failures."""
    lab.store.alerts.add(rule("checks", on="check-failed"))
    lab.report("a", "1")
    lab.settle()
    run = lab.start()
    lab.fail(run)
    assert told(lab) == []
    lab.live(hours=1)
    run = lab.start()
    error = {"code": "check", "message": "rows >= 1 failed", "checks": [{"check": "rows >= 1", "passed": False}]}
    lab.store.runs.fail(run.id, run.attempt, error)
    assert told(lab) == [("alert", "b")]


def test_a_failing_watcher_is_one_alert_with_what_is_late_below(lab: Lab) -> None:
    """One failed look says nothing; three in a row do, and the next good one is the all-clear."""
    watched = {"assetId": "a", "mode": "append", "watch": {"files": "drop/*.csv"}}
    lab.apply(workflow("b", "a"), sources=(watched,))
    lab.store.alerts.add(rule(on=["watch-failed", "overdue"]))

    def fail(times: int) -> None:
        lab.rows(
            "UPDATE watches SET failures = %s, error = %s, failing_since = %s RETURNING asset_id",
            times, "no such directory" if times else None, lab.now if times else None,
        )  # fmt: skip

    fail(1)
    assert told(lab) == []
    fail(3)
    assert told(lab) == [("alert", "a")]
    assert lab.one("SELECT error FROM alert_incidents") == "no such directory"
    fail(0)
    told(lab)
    lab.advance(minutes=2)
    assert told(lab) == [("alert", "a"), ("clear", "a")]


def test_what_was_wrong_before_the_rule_is_reported(lab: Lab) -> None:
    """And a removed rule takes its incidents with it and sends nothing."""
    break_(lab, "a")
    assert told(lab) == []
    lab.store.alerts.add(rule())
    assert told(lab) == [("alert", "b")]
    lab.store.alerts.remove("all")
    assert lab.one("SELECT count(*) FROM alert_incidents") == 0
    assert lab.one("SELECT count(*) FROM alert_messages") == 0


def test_a_removed_workflow_ends_its_incident(lab: Lab) -> None:
    """The all-clear says that it was removed."""
    lab.store.alerts.add(rule())
    break_(lab, "a")
    assert told(lab) == [("alert", "b")]
    lab.apply(workflow("c", "x"))
    told(lab)
    lab.advance(minutes=2)
    assert told(lab) == [("alert", "b"), ("clear", "b")]
    assert lab.one("SELECT closing FROM alert_incidents") == "removed"


def test_any_number_of_processes_evaluate_once(lab: Lab) -> None:
    """Eight at the same time queue one message."""
    lab.store.alerts.add(rule())
    break_(lab, "a")
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: lab.store.alert_evaluation.run(), range(8)))
    assert any(done)
    assert told(lab) == [("alert", "b")]


def test_nothing_is_read_while_nothing_changes(lab: Lab) -> None:
    """An evaluation is due when something fails or recovers, when a time comes, and not otherwise."""
    assert lab.store.alert_evaluation.time_left() is None, "there are no rules"
    lab.store.alerts.add(rule())
    told(lab)
    left = lab.store.alert_evaluation.time_left()
    assert left is not None
    assert left > 50
    lab.report("a", "1")
    lab.work()
    assert not lab.store.alert_evaluation.run()
    break_(lab, "a")
    assert lab.store.alert_evaluation.time_left() == 0


def test_a_paused_rule_sends_nothing(lab: Lab) -> None:
    """It reports what is still wrong when it is resumed."""
    lab.store.alerts.add(rule())
    lab.store.alerts.pause("all")
    break_(lab, "a")
    assert told(lab) == []
    lab.store.alerts.resume("all")
    assert told(lab) == [("alert", "b")]


def test_a_project_brings_its_rules(lab: Lab) -> None:
    """They cover its own assets; an edit keeps open incidents; a missing rule is removed; names are global."""
    mine = [workflow("b", "a"), workflow("c", "b"), workflow("d", "c")]
    plan = lab.apply(*mine, alerts=(rule("mine"),))
    assert plan.alerts.added == ("mine",)
    assert not plan.empty
    lab.store.apply.commit(project(workflow("y", "z"), name="other"))
    break_(lab, "a")
    lab.report("z", "1")
    lab.settle()
    other = lab.claim(name="other")
    assert other is not None
    lab.fail(other)
    assert told(lab) == [("alert", "b")], "`y` belongs to another project"
    assert lab.apply(*mine, alerts=(rule("mine"),)).empty
    plan = lab.apply(*mine, alerts=(rule("mine", on=["failing"], to=["json://127.0.0.1:8/", {"env": "HOOK"}]),))
    assert plan.alerts.changed == ("mine",)
    assert told(lab) == [("alert", "b")]
    assert lab.one("SELECT shown FROM alert_rules") == ["json://***", "$HOOK"]
    with pytest.raises(UsageError, match="belongs to project 'lab'"):
        lab.store.alerts.remove("mine")
    with pytest.raises(ConflictError, match="already"):
        lab.store.alerts.add(rule("mine"))
    lab.store.apply.rename("lab", "shop")
    assert lab.one("SELECT project FROM alert_rules") == "shop"
    plan = lab.apply(*mine, name="shop")
    assert plan.alerts.removed == ("mine",)
    assert lab.one("SELECT count(*) FROM alert_incidents") == 0


def test_jobs_do_not_get_addresses(lab: Lab) -> None:
    """The variables that hold them count as secrets of somebody else."""
    lab.store.alerts.add(rule(to=[{"env": "ALERT_URL"}, "json://h/"]))
    assert lab.store.runs.secret_names() == ["ALERT_URL"]


def test_a_name_of_another_is_refused_with_its_place(lab: Lab) -> None:
    """An apply does not take over a rule that was added by a command."""
    lab.store.alerts.add(rule("taken"))
    with pytest.raises(Exception, match=r"alert 'taken' was added by `freshline alert add`"):
        lab.apply(workflow("b", "a"), alerts=(rule("taken"),))
    with pytest.raises(NotFoundError, match="did you mean 'taken'"):
        lab.store.alerts.pause("takn")


def test_old_incidents_and_messages_are_pruned(lab: Lab) -> None:
    """Open incidents and waiting messages stay, however old they are."""
    lab.store.alerts.add(rule(on=EVERYTHING))
    break_(lab, "a")
    told(lab)
    lab.advance(days=40)
    lab.store.retention.prune(30, 100)
    assert lab.one("SELECT count(*) FROM alert_messages") == 1
    lab.store.operations.reset("b")
    told(lab)
    lab.advance(minutes=2)
    assert told(lab)[-1] == ("clear", "b")
    lab.rows("UPDATE alert_messages SET sent_at = %s RETURNING number", lab.now)
    lab.advance(days=40)
    lab.store.retention.prune(30, 100)
    assert lab.one("SELECT count(*) FROM alert_messages") == 0
    assert lab.one("SELECT count(*) FROM alert_incidents") == 0


def test_a_proposal_is_one_incident_until_it_is_answered(lab: Lab) -> None:
    """Its message names the asset, how many partitions would run, and the commands; the answer ends it."""
    days = {"time": "day", "start": "2025-12-30"}
    auto = {"onUpstreamUpdate": True, "partitions": {"limit": 2}}
    daily = divided("daily", {"raw": None}, days, auto=auto)
    lab.apply(daily, name="days", sources=({"assetId": "raw", "partitioning": days},))
    lab.store.alerts.add(rule(on=["backfill-proposed"], clearAfter="0s"))
    for key in ("2025-12-30", "2025-12-31", "2026-01-01"):
        lab.report("raw", "v1", partition_key=key)
    lab.settle()
    [proposal] = lab.store.backfills.list()
    assert told(lab) == [("alert", proposal["id"])]
    error = lab.one("SELECT error FROM alert_incidents")
    assert error == "3 old partitions would run"
    lab.report("raw", "v2", partition_key="2026-01-02")
    lab.settle()
    assert len(told(lab)) == 1
    lab.store.backfills.deny(proposal["id"])
    assert told(lab)[1:] == [("clear", proposal["id"])]
