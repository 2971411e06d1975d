"""Sources that are reported together are one generation: no join publishes half of it (docs/semantics.md#R4.7)."""

from __future__ import annotations

from typing import Any

import pytest

from freshline.errors import ConflictError, NotFoundError, UsageError
from freshline.model.reports import SourceReport
from tests.scenarios.factory import Factory
from tests.scenarios.test_partitions import divided
from tests.store_harness import Lab, workflow

BRANCHES = (workflow("a", "orders"), workflow("b", "lineitem"), workflow("c", "b"), workflow("join", "a c"))


def together(lab: Lab, version: str, *assets: str, **more: Any) -> dict[str, Any]:
    """Report sources together, all with the same version."""
    return dict(
        lab.store.operations.report_together(
            [SourceReport(one, version, **more) for one in assets or ("orders", "lineitem")]
        )
    )


def generations(lab: Lab, slug: str) -> list[tuple[int, int]]:
    """Return from which snapshots of `orders` and `lineitem` each run of a workflow stems, oldest run first."""
    return [
        (_stem(lab, run["pins"], "orders"), _stem(lab, run["pins"], "lineitem"))
        for run in lab.runs(slug)
        if run["status"] == "succeeded"
    ]


def _stem(lab: Lab, pins: dict[str, Any], source: str) -> int:
    query = "SELECT sources -> %s ->> 'sequence' FROM snapshots WHERE asset_id = %s AND sequence = %s"
    stems = [lab.one(query, source, one, pin["sequence"]) for one, pin in pins.items() if one != source]
    found = {int(one) for one in stems if one is not None} | ({pins[source]["sequence"]} if source in pins else set())
    assert len(found) == 1, f"{source} of several generations: {found}"
    return found.pop()


def begun(lab: Lab, *workflows: dict[str, Any]) -> None:
    """Make everything fresh at the first generation."""
    lab.apply(*(workflows or BRANCHES))
    together(lab, "v1")
    lab.work()
    assert open_groups(lab) == 0, "everything is at rest"


def open_groups(lab: Lab) -> int:
    """Return how many groups have not settled."""
    return int(lab.one("SELECT count(*) FROM report_groups"))


def test_a_join_below_two_branches_waits_for_both(lab: Lab) -> None:
    """The fast branch is done long before the slow one, and they share no source."""
    begun(lab)
    together(lab, "v2")
    Factory(lab, {"a": 1, "b": 60, "c": 60}).work()
    assert generations(lab, "join") == [(1, 1), (2, 2)]
    assert not any(run["mixed"] for run in lab.runs())
    assert open_groups(lab) == 0


def test_without_a_group_the_same_join_runs_on_each(lab: Lab) -> None:
    """Two reports have nothing in common, so that the join follows each of them."""
    begun(lab)
    lab.report("orders", "v2")
    lab.report("lineitem", "v2")
    Factory(lab, {"a": 1, "b": 60, "c": 60}).work()
    assert generations(lab, "join") == [(1, 1), (2, 1), (2, 2)]


def test_a_join_of_a_member_with_the_branch_of_another(lab: Lab) -> None:
    """`join` reads `orders` itself."""
    begun(lab, workflow("b", "lineitem"), workflow("join", "orders b"))
    together(lab, "v2")
    lab.settle()
    assert lab.reason("join") == "waiting-for-upstream"
    blocker = lab.decision("join")["evidence"]["blockers"][0]
    assert (blocker["workflowSlug"], blocker["together"]) == ("b", ["lineitem", "orders"])
    assert lab.work() == ["b", "join"]
    assert generations(lab, "join") == [(1, 1), (2, 2)]


def test_a_newer_report_of_a_member_does_not_part_the_group(lab: Lab) -> None:
    """`orders` moves on alone while the branch of `lineitem` is still on its way."""
    begun(lab)
    together(lab, "v2")
    lab.settle()
    first, slow = lab.start_of("a"), lab.start_of("b")
    lab.report("orders", "v3")
    lab.settle()
    lab.finish(first)
    lab.settle()
    lab.finish(lab.start_of("a"))  # orders of generation 3; lineitem is still at 1
    lab.settle()
    assert lab.active() == ["b"]
    assert lab.reason("join") == "waiting-for-upstream"
    lab.finish(slow)
    assert lab.work() == ["c", "join"]
    assert generations(lab, "join") == [(1, 1), (3, 2)]


def test_a_group_during_the_runs_of_another(lab: Lab) -> None:
    """The second group replaces the first one, and the join waits for all of it."""
    begun(lab)
    together(lab, "v2")
    lab.settle()
    fast, slow = lab.start_of("a"), lab.start_of("b")
    together(lab, "v3")
    assert open_groups(lab) == 1
    lab.settle()
    lab.finish(fast)
    lab.settle()
    lab.finish(lab.start_of("a"))
    lab.settle()
    lab.finish(slow)
    assert lab.work() == ["b", "c", "join"]
    assert generations(lab, "join") == [(1, 1), (3, 3)]


def test_what_has_settled_is_not_waited_for(lab: Lab) -> None:
    """Later single reports of the members are independent again."""
    begun(lab)
    together(lab, "v2")
    lab.work()
    lab.report("orders", "v3")
    lab.report("lineitem", "v3")
    lab.settle()
    slow = lab.start_of("b")
    assert lab.work() == ["a", "join"]
    lab.finish(slow)
    assert lab.work() == ["c", "join"]


def test_the_sweep_ends_a_group_that_nobody_reads(lab: Lab) -> None:
    """No batch of decisions follows its reports; one that is still on its way stays."""
    begun(lab)
    lab.apply(*BRANCHES, sources=("left", "right"))
    together(lab, "v1", "left", "right")
    together(lab, "v2")
    lab.store.evaluation.consume_inbox(10)
    assert open_groups(lab) == 2
    lab.store.evaluation.sweep()
    assert [row["members"] for row in lab.rows("SELECT members FROM report_groups")] == [["lineitem", "orders"]]
    lab.work()
    assert open_groups(lab) == 0


def test_a_branch_that_cannot_run_makes_a_mix(lab: Lab) -> None:
    """What runs on half of a group says so, until it is healed."""
    begun(lab)
    lab.store.operations.pause("b")
    together(lab, "v2")
    assert lab.work() == ["a", "join"]
    lab.report("orders", "v3")
    assert lab.work() == ["a", "join"]
    assert [run["mixed"] for run in lab.runs("join")] == [False, True, True]
    lab.store.operations.resume("b")
    assert lab.work() == ["b", "c", "join"]
    assert lab.runs("join")[-1]["mixed"] is False
    assert open_groups(lab) == 0


def test_a_branch_that_only_users_start_makes_a_mix(lab: Lab) -> None:
    """It is in motion for nobody, but its data is of the generation before."""
    begun(lab, workflow("a", "orders"), workflow("b", "lineitem"), workflow("join", "a b"))
    lab.apply(workflow("a", "orders"), workflow("b", "lineitem", auto=None), workflow("join", "a b"))
    lab.work()
    together(lab, "v2")
    assert lab.work() == ["a", "join"]
    lab.report("orders", "v3")
    assert lab.work() == ["a", "join"]
    assert [run["mixed"] for run in lab.runs("join")][-2:] == [True, True]
    lab.store.operations.request_run("b")
    assert lab.work() == ["b", "join"]
    assert lab.runs("join")[-1]["mixed"] is False
    assert open_groups(lab) == 0


def test_a_wait_for_half_of_a_group_ends_at_its_deadline(lab: Lab) -> None:
    """After `maxWaitMs` the join runs on half of the group, and says so."""
    auto = {"onUpstreamUpdate": True, "maxWaitMs": 10_000}
    begun(lab, *BRANCHES[:3], workflow("join", "a c", auto=auto))
    together(lab, "v2")
    Factory(lab, {"b": 60}).work()
    assert generations(lab, "join") == [(1, 1), (2, 1), (2, 2)]
    assert [run["mixed"] for run in lab.runs("join")] == [False, True, False]


def test_a_manual_run_on_half_of_a_group_says_so(lab: Lab) -> None:
    """A manual run does not wait."""
    begun(lab)
    together(lab, "v2")
    lab.settle()
    lab.finish(lab.start_of("a"))
    lab.settle()
    lab.store.operations.request_run("join")
    lab.finish(lab.start_of("join"))
    assert lab.work() == ["b", "c", "join"]
    assert [run["mixed"] for run in lab.runs("join")] == [False, True, False]


def test_a_failed_branch_is_waited_for_while_it_cools_down(lab: Lab) -> None:
    """The group has not settled until the branch has succeeded."""
    backoff = {"baseMs": 20_000, "maxMs": 30_000}
    begun(lab, BRANCHES[0], workflow("b", "lineitem", backoff=backoff), *BRANCHES[2:])
    together(lab, "v2")
    lab.settle()
    lab.fail(lab.start_of("b"))
    assert lab.work() == ["a"]
    lab.live(minutes=1)
    assert lab.work() == ["b", "c", "join"]
    assert generations(lab, "join") == [(1, 1), (2, 2)]


def test_a_join_that_is_defined_while_a_branch_runs(lab: Lab) -> None:
    """Nothing joined the branches when the group was reported."""
    begun(lab, *BRANCHES[:3])
    together(lab, "v2")
    lab.settle()
    slow = lab.start_of("b")
    assert lab.work() == ["a"]
    lab.apply(*BRANCHES)
    lab.settle()
    assert lab.reason("join") == "waiting-for-upstream"
    lab.finish(slow)
    assert lab.work() == ["c", "join"]
    assert generations(lab, "join") == [(2, 2)]


def test_a_member_that_a_workflow_produces_by_now(lab: Lab) -> None:
    """`orders` gets a producer while the branch of `lineitem` runs: its report still belongs to the other one."""
    begun(lab)
    together(lab, "v2")
    lab.settle()
    slow = lab.start_of("b")
    assert lab.work() == ["a"]
    lab.apply(*BRANCHES, workflow("load", "raw", outputs=["orders"]))
    lab.report("raw", "v1")
    assert lab.work() == ["load", "a"]
    assert lab.reason("join") == "waiting-for-upstream"
    lab.finish(slow)
    assert lab.work() == ["c", "join"]
    assert not any(run["mixed"] for run in lab.runs("join"))


def test_quiet_hours_and_expiry_part_no_group(lab: Lab) -> None:
    """A branch that sleeps is waited for, as its hold has an end; an expiry of the other one changes nothing."""
    quiet = workflow("b", "lineitem", quietHours=[{"from": "09:00", "to": "09:10"}])
    begun(lab, BRANCHES[0], workflow("b", "lineitem"), *BRANCHES[2:])
    lab.apply(BRANCHES[0], quiet, *BRANCHES[2:])
    lab.work()
    together(lab, "v2")
    assert lab.work() == ["a"]
    lab.store.operations.expire("a")
    assert lab.work() == ["a"]
    assert lab.reason("join") == "waiting-for-upstream"
    lab.live(minutes=11)
    assert lab.work() == ["b", "c", "join"]
    assert generations(lab, "join")[-1] == (2, 2)
    assert not any(run["mixed"] for run in lab.runs())


def test_partitions_of_two_sources(lab: Lab) -> None:
    """Only the partitions that were reported together are linked."""
    days = {"time": "day", "start": "2026-01-01"}
    made = (divided("a", {"orders": {}}, days), divided("b", {"lineitem": {}}, days))
    sources = tuple({"assetId": one, "partitioning": days} for one in ("orders", "lineitem"))
    lab.apply(*made, divided("join", {"a": {}, "b": {}}, days), sources=sources)
    for day in ("2026-01-03", "2026-01-04"):
        together(lab, "v1", partition_key=day)
    lab.work()
    assert open_groups(lab) == 0
    together(lab, "v2", partition_key="2026-01-03")
    lab.settle()
    slow = lab.start_of("b")
    lab.report("lineitem", "v2", partition_key="2026-01-04")
    lab.settle()
    other = lab.start_of("b")
    assert lab.work() == ["a"], "the join waits for the other branch"
    [blocker] = lab.decision("join")["evidence"]["blockers"]
    assert blocker["together"] == ["lineitem@2026-01-03", "orders@2026-01-03"]
    lab.report("orders", "v2", partition_key="2026-01-04")
    assert lab.work() == ["a", "join"], "the other day was reported in two parts"
    lab.finish(slow)
    lab.finish(other)
    assert lab.work() == ["join", "join"]
    assert not any(run["mixed"] for run in lab.runs())
    assert open_groups(lab) == 0


def test_all_or_nothing(lab: Lab) -> None:
    """An error about one source stores nothing about the others."""
    begun(lab)
    lab.report("orders", "v9", key="k")
    lab.work()
    before = lab.everything()
    for reports, error in (
        ([SourceReport("lineitem", "v2"), SourceReport("oders", "v2")], NotFoundError),
        ([SourceReport("lineitem", "v2"), SourceReport("join", "v2")], ConflictError),
        ([SourceReport("lineitem", "v2"), SourceReport("orders", "v8", key="k")], ConflictError),
        ([SourceReport("lineitem", "v2"), SourceReport("orders", "v9", key="k")], ConflictError),
        ([SourceReport("lineitem", "v2"), SourceReport("orders", payload={"path": "/etc/passwd"})], UsageError),
        ([SourceReport("lineitem", "v2"), SourceReport("orders", partition_key="x")], UsageError),
        ([SourceReport("lineitem", "v2"), SourceReport("lineitem", "v3")], UsageError),
        ([SourceReport("lineitem", "v2")], UsageError),
        ([], UsageError),
        ([SourceReport(f"s{number}") for number in range(101)], UsageError),
        ([SourceReport("lineitem", "v2"), SourceReport("orders", payload="x" * 300_000)], UsageError),
    ):
        with pytest.raises(error):
            lab.store.operations.report_together(reports)
    assert lab.everything() == before


def test_the_same_call_again_changes_nothing(lab: Lab) -> None:
    """With keys, as for single reports."""
    begun(lab)
    first = together(lab, "v2", key="day-2")
    assert (first["duplicate"], len(first["reports"])) == (False, 2)
    before = lab.everything()
    again = together(lab, "v2", key="day-2")
    assert (again["duplicate"], again["groupId"]) == (True, None)
    assert [one["version"] for one in again["reports"]] == [one["version"] for one in first["reports"]]
    assert lab.everything() == before


def test_events_say_what_belongs_together(lab: Lab) -> None:
    """Each event names all members, and the same group."""
    begun(lab)
    found = together(lab, "v2")
    events = [one["data"].get("group") for one in lab.events("asset.produced")[-2:]]
    assert events == [{"id": found["groupId"], "members": ["lineitem", "orders"]}] * 2


def test_deliveries_of_append_sources_belong_together(lab: Lab) -> None:
    """Each source gets its own delivery."""
    lab.apply(*BRANCHES, sources=({"assetId": "orders", "mode": "append"}, {"assetId": "lineitem", "mode": "append"}))
    assert [one["delivery"] for one in together(lab, "v1")["reports"]] == [1, 1]
    lab.work()
    assert [one["delivery"] for one in together(lab, "v2")["reports"]] == [2, 2]
    Factory(lab, {"b": 60}).work()
    assert generations(lab, "join") == [(1, 1), (2, 2)]


TPCH = {
    # The tables of TPC-H that each query reads; all of them are refreshed by runs of their own.
    1: "lineitem", 2: "part supplier partsupp nation region", 3: "customer orders lineitem", 4: "orders lineitem",
    5: "customer orders lineitem supplier nation region", 6: "lineitem", 7: "supplier lineitem orders customer nation",
    8: "part supplier lineitem orders customer nation region", 9: "part supplier lineitem partsupp orders nation",
    10: "customer orders lineitem nation", 11: "partsupp supplier nation", 12: "orders lineitem",
    13: "customer orders", 14: "lineitem part", 15: "lineitem supplier", 16: "partsupp part supplier",
    17: "lineitem part", 18: "customer orders lineitem", 19: "lineitem part",
    20: "supplier nation partsupp part lineitem", 21: "supplier lineitem orders nation", 22: "customer orders",
}  # fmt: skip


def test_a_refresh_of_tpch_runs_every_affected_query_once(lab: Lab) -> None:
    """`orders` and `lineitem` are cleaned by workflows of different speed, and 19 queries read what these make."""
    tables = sorted({one for read in TPCH.values() for one in read.split()})
    clean = [workflow(one, f"raw.{one}") for one in tables]
    lab.apply(*clean, *(workflow(f"q{number:02}", read) for number, read in TPCH.items()))
    together(lab, "v1", *(f"raw.{one}" for one in tables))
    lab.work()
    before = len(lab.runs())
    together(lab, "v2", "raw.orders", "raw.lineitem")
    Factory(lab, {"orders": 5, "lineitem": 300}).work()
    ran = sorted(run["slug"] for run in lab.runs()[before:])
    affected = {f"q{number:02}" for number, read in TPCH.items() if {"orders", "lineitem"} & set(read.split())}
    assert ran == sorted({"orders", "lineitem", *affected}), "each once"
    heads = {one: lab.head(one)["sequence"] for one in ("orders", "lineitem")}
    for run in lab.runs()[before:]:
        read = {one: pin["sequence"] for one, pin in run["pins"].items() if one in heads}
        assert read == {one: heads[one] for one in read}, f"{run['slug']} read half of the refresh"
    assert not any(run["mixed"] for run in lab.runs())
