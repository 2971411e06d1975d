"""The public test kit: chains of steps and expectations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from freshline.definitions.loading.project import load_project
from freshline.definitions.template import write_template
from freshline.errors import DefinitionErrors, FreshlineError, NotFoundError, UsageError
from freshline.testing import Chain, ExpectationError, given
from tests.store_harness import workflow


def diamond(**auto: Any) -> Chain:
    """Return a chain with a -> b, c -> d, where d reads a too."""
    policy = {"onUpstreamUpdate": True, **auto}
    return given([workflow("b", "a"), workflow("c", "a"), workflow("d", "a b c", auto=policy)])


def test_a_diamond_joins_once() -> None:
    """d waits for both branches, whichever ends first, and reads one generation."""
    both = diamond().report("a").expect_runs("b", "c").expect_held("d", "waiting-for-upstream")
    for first, second in (("b", "c"), ("c", "b")):
        joined = both.succeed(first).expect_held("d").succeed(second).expect_run("d", mixed=False)
        joined.expect_runs("d").succeed("d").expect_nothing().expect_fresh("b", "c", "d")


def test_a_join_below_sources_that_are_reported_together() -> None:
    """join waits for the slower branch of a group, and not for that of another report."""
    flow = given([workflow("a", "orders"), workflow("b", "lineitem"), workflow("join", "a b")])
    both = flow.report_together("orders", "lineitem").succeed("a").expect_held("join", "waiting-for-upstream")
    settled = both.succeed("b").expect_run("join", mixed=False).succeed("join").expect_nothing()
    for chain in (flow, settled):
        chain.report("orders", "lineitem").succeed("a").expect_run("join", mixed=False)
    with pytest.raises(UsageError, match="name different sources"):
        flow.report_together("orders")


def test_chains_do_not_share_anything() -> None:
    """What happens after one chain does not happen to another with the same beginning."""
    start = diamond().report("a")
    start.work().expect_nothing()
    start.fail("b").expect_runs("c")
    start.expect_runs("b", "c")


def test_a_wait_that_runs_out_is_mixed() -> None:
    """After maxWait d runs on what is there, and says so."""
    diamond(maxWaitMs=60_000).report("a").succeed("b").advance(seconds=60).expect_run("d", mixed=True)


def test_failures_cool_down_and_open_the_breaker() -> None:
    """A failed run comes back by itself after its cooldown, and seldom after its budget."""
    flow = workflow("b", "a", backoff={"baseMs": 60_000, "maxMs": 3_600_000, "budget": 2})
    failed = (
        given(flow).at("09:00").report("a").fail("b").expect_held("b", "cooling-down", until="09:01").expect_stale("b")
    )
    again = failed.at("09:01").expect_run("b", "retry").fail("b").expect_held("b", "breaker-open")
    again.reset("b").expect_runs("b").succeed("b").expect_fresh("b")


def test_freshness_runs_out() -> None:
    """A ttl, a cadence and a cron each cause a run at their time; nothing runs before."""
    flows = [
        workflow("t", freshness={"ttl": "1h"}),
        workflow("g", freshness={"cadence": "1d"}),
        workflow("k", freshness={"cron": "0 12 * * *", "timezone": "Europe/Berlin"}),
    ]
    start = given(flows).at("08:30").at("09:29").expect_nothing()
    start.at("09:30").expect_run("t", "expired").succeed("t").at("11:00").expect_runs("t", "k")
    start.at("00:00").expect_run("g", "expired")


def test_nothing_is_there_at_first() -> None:
    """With fresh=False inputs are missing, and then outputs are."""
    empty = diamond().simulator.catalogue
    begun = given([workflow("b", "a"), workflow("c", "b")], fresh=False)
    begun.expect_nothing().expect_held("b", "input-missing").report("a").expect_run("b", "missing").work().expect_fresh(
        "c"
    )
    assert empty.sources == ("a",)


def test_an_equal_output_stops_the_wave() -> None:
    """Unchanged data leaves those below alone (docs/semantics.md#R9.3)."""
    given([workflow("b", "a"), workflow("c", "b")]).report("a").succeed("b", changed=False).expect_nothing()


def test_the_same_version_is_no_change() -> None:
    """Versions are compared, not reports counted."""
    once = given(workflow("b", "a")).report("a", version="1").work()
    once.report("a", version="1").expect_nothing().report("a", version="2").expect_runs("b")


def test_a_started_run_keeps_what_it_reads() -> None:
    """A queued run takes new data along; a started one is followed by another."""
    queued = given(workflow("b", "a")).report("a")
    queued.report("a").succeed("b").expect_nothing()
    queued.start("b").report("a").succeed("b").expect_runs("b")


def test_pause_cancel_and_policies_that_are_off() -> None:
    """Interventions of users, and workflows that do not run automatically."""
    flows = [workflow("b", "a"), workflow("off", "a", auto={"enabled": False}), workflow("none", "a", auto=None)]
    start = given(flows).pause("b").report("a").expect_held("b", "paused")
    start.expect_skipped("off", "policy-off").expect_skipped("none", "not-auto")
    start.resume("b").cancel("b").expect_held("b", "canceled").report("a").expect_runs("b")
    given(flows).expire("b").expect_run("b", "expired")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda chain: chain.expect_runs("b"), r"expected runs of b, but b, c run\n"),
        (lambda chain: chain.expect_nothing(), r"expected runs of nothing, but b, c run\n"),
        (lambda chain: chain.expect_held("b"), r"expected b to be held, but it is queued \(upstream-update\)"),
        (lambda chain: chain.expect_held("d", "debouncing"), r"but it is held \(waiting-for-upstream: b, c\)"),
        (lambda chain: chain.expect_held("d", until="10:00"), r"held until 10:00, but it is held"),
        (lambda chain: chain.expect_skipped("d"), r"expected d to be skipped, but it is held"),
        (lambda chain: chain.expect_fresh("b"), r"expected b to be fresh, but it is queued"),
        (lambda chain: chain.work().expect_stale("b"), r"expected b to be stale, but it is skipped \(up-to-date\)"),
        (lambda chain: chain.expect_run("b", "expired"), r"because of 'expired', but it runs because of 'upstream-upd"),
        (lambda chain: chain.expect_run("b", mixed=True), r"to be mixed, but it is the reverse"),
        (lambda chain: chain.succeed("d"), r"d has no run: it is held \(waiting-for-upstream: b, c\)"),
        (lambda chain: chain.start("b").start("b"), r"the run of b has begun already"),
    ],
)  # fmt: skip
def test_what_happened_instead_is_told(wrong: Any, told: str) -> None:
    """An expectation that does not hold shows every workflow with its reason, and the steps."""
    with pytest.raises(ExpectationError, match=told) as error:
        wrong(diamond().at("09:00").report("a"))
    assert "UTC:\n  b  " in str(error.value)
    assert "after: at 09:00; report a" in str(error.value)


@pytest.mark.parametrize(
    ("wrong", "kind", "told"),
    [
        (lambda chain: chain.report("aa"), NotFoundError, "asset 'aa' does not exist.*did you mean 'a'"),
        (lambda chain: chain.report("b"), FreshlineError, "'b' is produced by workflow 'b'; only sources"),
        (lambda chain: chain.expect_runs("a"), NotFoundError, "'a' is a source"),
        (lambda chain: chain.expect_held("b", "bored"), UsageError, "'bored' does not exist; allowed are missing"),
        (lambda chain: chain.at("noon"), UsageError, "'noon' is not a time; allowed are 09:00"),
        (lambda chain: chain.at("2025-01-01T00:00"), UsageError, "lies before 2026-01-05 09:00:00; time only moves on"),
        (lambda _: given({"slug": "b", "stepz": []}), DefinitionErrors, "stepz"),
        (lambda _: given([workflow("b", "c"), workflow("c", "b")]), FreshlineError, "b -> c -> b|c -> b -> c"),
        (lambda _: given([7]), UsageError, "given 'int'; allowed are a project's directory"),
    ],
)  # fmt: skip
def test_mistakes_are_told(wrong: Any, kind: type[Exception], told: str) -> None:
    """A wrong name, reason, time or definition is an error of its own, with what is allowed."""
    with pytest.raises(kind, match=told):
        wrong(diamond().report("a"))


def test_a_project_in_every_form(tmp_path: Path) -> None:
    """A directory, its path as text, a loaded project and its workflows give the same simulator."""
    write_template(tmp_path)
    project = load_project(tmp_path)
    for form in (tmp_path, str(tmp_path), project, list(project.workflows), [w.definition for w in project.workflows]):
        given(form).report("orders.raw").expect_runs("orders.daily").work().expect_fresh("orders.best")


def test_the_kit_needs_no_driver_and_no_spark() -> None:
    """Importing it loads neither psycopg nor pyspark."""
    code = "import sys, freshline.testing; assert not {'psycopg', 'pyspark'} & set(sys.modules), sorted(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_second_mix_is_said_too() -> None:
    """After a mixed run all inputs count as changed: the next run waits (ADR 0004)."""
    hasty = {"onUpstreamUpdate": True, "maxWaitMs": 1_000}
    slow = given([workflow("a", "s"), workflow("d", "s a", auto=hasty)]).report("s").start("a").advance(seconds=2)
    mixed = slow.expect_run("d", mixed=True).succeed("d").report("s").succeed("a")
    mixed.expect_held("d", "waiting-for-upstream").succeed("a").expect_run("d", mixed=False)
