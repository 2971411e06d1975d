"""The wave with real processes flows by itself and survives kill -9 of every part.

See docs/scenarios.md#scenario-6, docs/scenarios.md#scenario-17, docs/scenarios.md#scenario-24,
docs/scenarios.md#scenario-25, docs/scenarios.md#scenario-29.
"""

from __future__ import annotations

import os
import signal
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.deployment import Deployment
from tests.waiting import wait_until

pytestmark = pytest.mark.process


def test_one_report_refreshes_every_descendant_once(deployment: Deployment) -> None:
    """A three-level graph: one report, one automatic run per descendant, and status says fresh."""
    for asset, source in (("b", "a"), ("c", "b"), ("d", "c")):
        deployment.workflow(asset, source)
    deployment.apply()
    deployment.start_all()
    deployment.cli("report", "a", "--version", "1")
    deployment.wait_fresh("b", "c", "d")
    runs = list(reversed(deployment.json("runs")))
    assert [run["workflowSlug"] for run in runs] == ["b", "c", "d"]
    assert {run["trigger"]["type"] for run in runs} == {"auto-materialize"}
    states = {one["assetId"]: one["state"] for one in deployment.json("status")["assets"]}
    assert states == {"a": "source", "b": "fresh", "c": "fresh", "d": "fresh"}
    assert deployment.versions()["d"] == "d(c=c(b=b(a=1)))"
    assert "d reads c" in deployment.cli("logs", runs[-1]["id"])


def test_a_ttl_refreshes_again_and_again_also_after_kill(deployment: Deployment) -> None:
    """An asset with `ttl: 1s` is refreshed without anyone doing anything, also after kill -9 of everything."""
    deployment.workflow("clock", auto="{}", freshness="{ttl: 1s}")
    deployment.commit()
    materializer, worker = deployment.start_all()
    wait_until(lambda: len(deployment.journal("clock")) >= 3, 60, what="three refreshes")
    deployment.kill(materializer)
    deployment.kill(worker)
    before = len(deployment.journal("clock"))
    deployment.start_all()
    wait_until(lambda: len(deployment.journal("clock")) >= before + 2, 60, what="two more refreshes after the restart")
    reasons = [run["trigger"]["reason"] for run in deployment.runs()]
    assert reasons[0] == "missing"
    assert set(reasons[1:]) == {"expired"}


@pytest.mark.parametrize("victim", ["runner", "worker", "materializer"])
def test_the_wave_completes_after_kill_of(deployment: Deployment, victim: str) -> None:
    """kill -9 in the middle of a wave, then restart: it completes, and no run is doubled."""
    deployment.workflow("b", "a", gate="go", more="backoff: {baseMs: 200, maxMs: 200}\n")
    deployment.workflow("c", "b")
    deployment.commit()
    materializer, worker = deployment.start_all()
    deployment.report("a", "1")
    wait_until(lambda: deployment.journal("b"), 60, what="b's job runs")
    if victim == "runner":
        os.kill(int(deployment.journal("b")[0][2]), signal.SIGKILL)
    elif victim == "worker":
        deployment.kill(worker)
        deployment.start("worker")
    else:
        deployment.kill(materializer)
        deployment.start("materializer")
    (deployment.root / "go").touch()
    deployment.wait_fresh("b", "c")
    succeeded = [run["workflowSlug"] for run in deployment.runs() if run["status"] == "succeeded"]
    assert succeeded == ["b", "c"]
    assert deployment.versions()["c"] == "c(b=b(a=1))"


def test_reports_while_everything_is_down_are_not_lost(deployment: Deployment) -> None:
    """All workers are down while sources are reported: after the start everything converges.

    See docs/scenarios.md#scenario-6.
    """
    deployment.workflow("b", "a")
    deployment.workflow("c", "b")
    deployment.commit()
    for version in ("1", "2", "3"):
        deployment.report("a", version)
    deployment.start_all()
    deployment.wait_fresh("b", "c")
    assert deployment.versions()["c"] == "c(b=b(a=3))"
    assert [run["workflowSlug"] for run in deployment.runs()] == ["b", "c"]


def test_a_cooldown_survives_a_restart_of_everything(deployment: Deployment) -> None:
    """A failure, then a restart: no run before the cooldown ends, then a retry by itself.

    See docs/scenarios.md#scenario-17.
    """
    deployment.workflow("b", "a", more="backoff: {baseMs: 4000, maxMs: 4000}\n")
    deployment.commit()
    (deployment.root / "fail-b").touch()
    materializer, worker = deployment.start_all()
    deployment.report("a", "1")

    def cooling_down() -> bool:
        return "cooling-down" in {one["reason"] for one in deployment.reader.decisions(limit=1000)}

    wait_until(cooling_down, 60, what="b failed and is held")
    deployment.kill(materializer)
    deployment.kill(worker)
    (deployment.root / "fail-b").unlink()
    deployment.start_all()
    deployment.wait_fresh("b")
    first, second = deployment.runs()
    assert second["trigger"]["reason"] in {"retry", "missing"}
    waited = datetime.fromisoformat(second["queuedAt"]) - datetime.fromisoformat(first["finishedAt"])
    assert waited >= timedelta(seconds=4)


def test_a_stopped_worker_that_wakes_up_changes_nothing(deployment: Deployment) -> None:
    """SIGSTOP longer than the lease: another worker finishes; after SIGCONT nothing has changed.

    See docs/scenarios.md#scenario-25.
    """
    deployment.workflow("b", "a", gate="go")
    deployment.commit()
    _, stopped = deployment.start_all()
    deployment.report("a", "1")
    wait_until(lambda: deployment.journal("b"), 60, what="b's job runs")
    stopped.send_signal(signal.SIGSTOP)
    (deployment.root / "go").touch()
    deployment.start("worker")
    deployment.wait_fresh("b")
    before = deployment.runs()
    assert before[0]["attempt"] == 2
    stopped.send_signal(signal.SIGCONT)
    stopped.send_signal(signal.SIGTERM)
    stopped.wait(30)
    assert deployment.runs() == before
    assert deployment.versions()["b"] == "b(a=1)"


def test_a_stopped_worker_that_wakes_up_says_that_it_was_no_crash(deployment: Deployment) -> None:
    """Its lease was lost without a crash, so the run does not come nearer to being called poison.

    See docs/semantics.md#R12.2.
    """
    deployment.workflow("b", "a", gate="go")
    deployment.commit()
    _, stopped = deployment.start_all()
    deployment.report("a", "1")
    wait_until(lambda: deployment.journal("b"), 60, what="b's job runs")
    stopped.send_signal(signal.SIGSTOP)
    deployment.start("worker")
    with deployment.database.connection() as connection:

        def crashed() -> list[tuple[int, list[int]]]:
            rows = connection.execute("SELECT attempt, crashed FROM runs WHERE status = 'running'").fetchall()
            connection.commit()
            return [(row["attempt"], row["crashed"]) for row in rows]

        wait_until(lambda: crashed() == [(2, [1])], 60, what="another worker has taken over")
        stopped.send_signal(signal.SIGCONT)
        wait_until(lambda: crashed() == [(2, [])], 60, what="the first one has excused itself")
    (deployment.root / "go").touch()
    deployment.wait_fresh("b")


@pytest.mark.full  # the gate stops a worker while its job runs
def test_a_worker_that_is_stopped_while_it_publishes_changes_nothing(deployment: Deployment) -> None:
    """SIGSTOP just before the commit, longer than the lease: another worker finishes; SIGCONT changes nothing."""
    deployment.workflow("b", "a")
    deployment.commit()
    deployment.start("materializer")
    stopped = deployment.start("worker", FRESHLINE_FAILPOINTS="publish_run:before=stop")
    deployment.report("a", "1")
    state = Path(f"/proc/{stopped.pid}/stat")
    wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", 60, what="the worker is stopped")
    assert deployment.states()["b"] != "fresh"
    deployment.start("worker")
    deployment.wait_fresh("b")
    before = deployment.runs()
    assert before[0]["attempt"] == 2
    with deployment.database.connection() as connection:
        query = "SELECT attempt FROM snapshots WHERE asset_id = 'b'"
        assert connection.execute(query).fetchall() == [{"attempt": 2}]
        stopped.send_signal(signal.SIGCONT)
        stopped.send_signal(signal.SIGTERM)
        stopped.wait(30)
        assert connection.execute(query).fetchall() == [{"attempt": 2}]
    assert deployment.runs() == before


def test_sigterm_hands_the_run_back(deployment: Deployment) -> None:
    """A worker that is told to leave hands its run back within its grace; another one finishes it.

    See docs/scenarios.md#scenario-29.
    """
    deployment.workflow("b", "a", gate="go")
    deployment.commit()
    deployment.start("materializer")
    leaving = deployment.start("worker", "--grace", "0.5")
    deployment.report("a", "1")
    wait_until(lambda: deployment.journal("b"), 60, what="b's job runs")
    leaving.send_signal(signal.SIGTERM)
    assert leaving.wait(30) == 0
    assert deployment.runs()[0]["status"] == "queued"
    (deployment.root / "go").touch()
    deployment.start("worker")
    deployment.wait_fresh("b")
    assert [run["attempt"] for run in deployment.runs()] == [2]


def test_a_process_meets_the_next_schema(deployment: Deployment) -> None:
    """It goes on with what was only added, and stops with a sentence when it cannot go on.

    See docs/scenarios.md#scenario-28.
    """
    deployment.workflow("b", "a")
    deployment.commit()
    processes = deployment.start_all()
    meet = "INSERT INTO freshline_migrations (version, name, breaking) VALUES (%s, %s, %s)"
    with deployment.database.connection() as connection:
        connection.execute(meet, [9998, "9998_next_pre", False])
    deployment.report("a", "1")
    deployment.wait_fresh("b")
    with deployment.database.connection() as connection:
        connection.execute(meet, [9999, "9999_next_post", True])
    wait_until(lambda: all(one.poll() is not None for one in processes), 60, what="the end of both processes")
    assert [one.returncode for one in processes] == [1, 1]
    assert deployment.logs().count("schema version 9999 of the database is newer than this Freshline") == 2
    assert "Traceback" not in deployment.logs()
