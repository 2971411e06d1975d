"""Commands that write: report, materialize, pause and others."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from freshline.cli.commands import run as run_module
from freshline.cli.render.format import parse_time
from freshline.definitions.loading.project import load_project
from freshline.model.run import StagedOutput
from freshline.services.inbox_consumer import InboxConsumer
from freshline.services.reconciler import Reconciler
from freshline.store.db.ids import new_id
from freshline.store.runs.claim import Claimant
from freshline.store.store import Store
from tests.cli.conftest import WORKFLOWS, Freshline
from tests.waiting import wait_until


def settle(store: Store) -> None:
    """Consume the inbox and decide until nothing is left to do."""
    absorber, reconciler = InboxConsumer(store), Reconciler(store)
    while absorber.run_once() or reconciler.run_once():
        pass


COLLECT = """
slug: collect
steps:
  - id: one
    type: job
    job: { kind: spark.sql, sql: SELECT * FROM shop_raw }
    consumes: [ { assetId: shop.raw, rows: new } ]
    produces: [ { assetId: all.orders, table: { mode: append }, autoMaterialize: { onUpstreamUpdate: true } } ]
"""


def collected(freshline: Freshline, store: Store) -> None:
    """Let a table collect the rows of two versions of a source."""
    (freshline.project / "workflows" / "collect.yaml").write_text(COLLECT)
    (freshline.project / "sources" / "raw.yaml").write_text("{assetId: shop.raw, format: csv, path: raw.csv}")
    freshline("apply", "--yes")
    for version, rows in (("1", 4), ("2", 7)):
        freshline("report", "shop.raw", "--version", version)
        settle(store)
        claimant = Claimant(new_id(), "shop", load_project(freshline.project).code_hash, spark=True)
        while run := store.runs.claim(claimant):
            location = {"format": "parquet", "paths": [f"all.orders/data/{version}"], "files": {}}
            table = StagedOutput("all.orders", "one", version, location, rows=rows, appended=version == "2")
            store.runs.publish(run, [table if run.slug == "collect" else StagedOutput("shop.clean", "one", "v")])


class TestInit:
    """`freshline init`."""

    def test_makes_a_valid_project_once(self, freshline: Freshline, tmp_path: Path) -> None:
        """What it writes is valid; a second time it refuses and changes nothing."""
        target = tmp_path / "new"
        assert "next: cd" in freshline("init", str(target)).stderr
        assert freshline.json("validate", str(target))["valid"]
        assert "exists" in freshline("init", str(target), code=1).stderr

    def test_what_it_makes_runs_without_a_report(self, freshline: Freshline, store: Store, tmp_path: Path) -> None:
        """Its data is there, so the first apply reports it, and says so."""
        target = str(tmp_path / "lake")
        freshline("init", target)
        told = freshline("apply", target, "--yes").stdout
        assert "reported once, because the data is there: orders.raw" in told
        assert "orders-best" in told.partition("because of it:")[2]
        settle(store)
        assert [one["workflowSlug"] for one in store.reader.runs()] == ["orders-daily"]


class TestValidate:
    """`freshline validate`."""

    def test_a_valid_project(self, freshline: Freshline) -> None:
        """Says so, with what is in it; no database is needed."""
        found = freshline.json("validate")
        assert found == {
            "valid": True,
            "errors": [],
            "warnings": [],
            "project": "shop",
            "workflows": ["make-clean", "make-daily"],
            "sources": ["shop.raw"],
        }
        assert "2 workflows, 1 source" in freshline("validate", str(freshline.project)).stderr

    def test_all_errors_at_once_without_a_database(self, freshline: Freshline, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each error has its file and line; exit code 1; with --json still one document."""
        monkeypatch.setenv("FRESHLINE_DATABASE_URL", "postgresql://nowhere.invalid/x")
        for name in ("one", "two"):
            (freshline.project / "workflows" / f"{name}.yaml").write_text(f"slug: {name}\nsteps: []\nodd: 1\n")
        text = freshline("validate", code=1).stderr
        assert "workflows/one.yaml:3" in text
        assert "workflows/two.yaml:3" in text
        found = freshline.json("validate", code=1)
        assert found["valid"] is False
        assert {"message", "file", "line", "hint", "code"} == found["errors"][0].keys()

    def test_strict_makes_a_warning_an_error(self, freshline: Freshline) -> None:
        """An input that nobody knows is a warning, with --strict an error."""
        (freshline.project / "sources" / "raw.yaml").unlink()
        assert "shop.raw" in freshline.json("validate")["warnings"][0]
        assert "warning:" in freshline("validate").stderr
        assert freshline("validate", "--strict", code=1).stdout == ""


class TestApply:
    """`freshline apply`."""

    def test_dry_run_shows_and_changes_nothing(self, freshline: Freshline) -> None:
        """The plan tells what is added and what will run; nothing is stored."""
        found = freshline.json("apply", "--dry-run")
        assert found["added"] == ["make-clean", "make-daily"]
        assert found["applied"] is False
        assert {one["workflowSlug"]: one["reason"] for one in found["flood"]["held"]} == {
            "make-clean": "input-missing",
            "make-daily": "input-missing",
        }
        text = freshline("apply", "--dry-run").stdout
        assert "because of it:" in text
        assert "nothing would run at once" in text
        assert freshline.json("status")["workflows"] == []

    def test_the_flood_is_told_before_it_comes(self, applied: Freshline) -> None:
        """In order and with the cause of each; programs get every run, people the first 20 and a count."""
        applied("report", "shop.raw", "--version", "v1")
        for number in range(25):
            one = WORKFLOWS.partition("---")[0].replace("make-clean", f"more-{number}")
            one = one.replace("shop.clean", f"more.{number}")
            (applied.project / "workflows" / f"more{number}.yaml").write_text(one)
        flood = applied.json("apply", "--dry-run")["flood"]
        assert {run["workflowSlug"] for run in flood["runs"]} == {f"more-{number}" for number in range(25)}
        assert [(run["order"], run["reason"]) for run in flood["runs"]] == [(n, "missing") for n in range(1, 26)]
        assert flood["assumes"][0].startswith("every run succeeds")
        text = applied("apply", "--dry-run").stdout
        assert "and 5 more, 25 in all; --json has all" in text
        assert text.count("missing") == 20

    def test_with_the_baseline_nothing_comes(self, applied: Freshline, store: Store) -> None:
        """`--baseline now`: a changed job starts nothing, and that is what is told."""
        applied("report", "shop.raw", "--version", "v1")
        store.evaluation.consume_inbox(10)
        Reconciler(store).run_once()
        code = load_project(applied.project).code_hash
        run = store.runs.claim(Claimant(new_id(), "shop", code, spark=False))
        assert run is not None
        store.runs.publish(run, [StagedOutput("shop.clean", "one", "c1")])
        file = applied.project / "workflows" / "w0.yaml"
        file.write_text(file.read_text().replace("jobs:clean", "jobs:daily"))
        told = [one["reason"] for one in applied.json("apply", "--dry-run")["flood"]["runs"]]
        assert told == ["definition-changed", "missing"]
        (applied.project / "workflows" / "w1.yaml").unlink()
        assert "definition-changed" in applied("apply", "--dry-run").stdout
        quiet = applied("apply", "--baseline", "now", "--yes").stdout
        assert "nothing would run at once" in quiet
        assert "nothing that may trigger it would change" in quiet
        Reconciler(store).run_once()
        assert applied.json("runs", "--status", "queued") == []

    def test_the_new_time_of_an_edited_freshness_is_shown(self, applied: Freshline, store: Store) -> None:
        """The data expires from the apply on, and nothing runs because of the edit."""
        applied("report", "shop.raw", "--version", "v1")
        store.evaluation.consume_inbox(10)
        Reconciler(store).run_once()
        code = load_project(applied.project).code_hash
        run = store.runs.claim(Claimant(new_id(), "shop", code, spark=False))
        assert run is not None
        store.runs.publish(run, [StagedOutput("shop.clean", "one", "c1")])
        file = applied.project / "workflows" / "w0.yaml"
        declared = file.read_text()
        file.write_text(declared.replace("ttl: 1h", "ttl: 2h"))
        (shown,) = applied.json("apply", "--dry-run")["expiries"]
        assert shown["assetId"] == "shop.clean"
        left = parse_time(shown["expiresAt"]) - datetime.now(UTC)
        assert timedelta(minutes=115) < left <= timedelta(hours=2)
        assert "shop.clean would expire at " in applied("apply", "--dry-run").stdout
        file.write_text(declared.replace("freshness: { ttl: 1h }, ", ""))
        assert "shop.clean would no longer expire" in applied("apply", "--yes").stdout
        file.write_text(declared.replace("freshness: { ttl: 1h }, ", "") + "\ndescription: other\n")
        assert applied.json("apply", "--dry-run")["expiries"] == []

    def test_without_a_terminal_it_wants_a_yes(self, freshline: Freshline) -> None:
        """Nobody to ask: exit code 2, and what to do."""
        assert "--yes" in freshline("apply", code=2).stderr
        assert freshline.json("status")["workflows"] == []

    @pytest.mark.parametrize(("answer", "stored"), [("y\n", 2), ("n\n", 0)])
    def test_it_asks_on_a_terminal(self, freshline: Freshline, answer: str, stored: int) -> None:
        """The answer decides."""
        with patch("freshline.cli.commands.project._on_a_terminal", return_value=True):
            freshline("apply", stdin=answer)
        assert len(freshline.json("status")["workflows"]) == stored

    def test_applies_changes_retires_and_then_nothing(self, applied: Freshline) -> None:
        """Stored once; a changed file changes, a removed file retires, an unchanged project does nothing."""
        found = applied.json("apply")
        assert (found["unchanged"], found["applied"]) == (["make-clean", "make-daily"], True)
        file = applied.project / "workflows" / "w0.yaml"
        file.write_text(file.read_text().replace("ttl: 1h", "ttl: 2h"))
        (applied.project / "workflows" / "w1.yaml").unlink()
        found = applied.json("apply", "--yes")
        assert (found["changed"], found["retired"]) == (["make-clean"], ["make-daily"])
        assert [one["slug"] for one in applied.json("status")["workflows"]] == ["make-clean"]

    def test_errors_apply_nothing(self, freshline: Freshline) -> None:
        """All or nothing."""
        (freshline.project / "workflows" / "bad.yaml").write_text("slug: bad\n")
        assert "workflows/bad.yaml" in freshline("apply", "--yes", code=1).stderr
        assert freshline.json("status")["workflows"] == []

    def test_the_directory_may_be_an_argument(self, freshline: Freshline, monkeypatch: pytest.MonkeyPatch) -> None:
        """`freshline apply DIR` names the project too."""
        monkeypatch.delenv("FRESHLINE_PROJECT")
        assert freshline.json("apply", str(freshline.project), "--yes")["project"] == "shop"


class TestReport:
    """`freshline report` and `expire`."""

    def test_fields_duplicates_and_late_reports(self, applied: Freshline) -> None:
        """A report tells what it did; keys and sequences are respected."""
        first = applied.json("report", "shop.raw", "--version", "v1", "--key", "k1", "--sequence", "5")
        wanted = {"assetId", "version", "dataVersion", "changed", "duplicate", "movedHead", "eventId"}
        assert wanted <= first.keys()
        assert (first["version"], first["dataVersion"], first["changed"]) == (1, "v1", True)
        again = ("report", "shop.raw", "--version", "v1", "--key", "k1", "--sequence")
        assert "reported before" in applied(*again, "5").stderr
        assert "with another sequence" in applied(*again, "6", code=1).stderr
        assert "later one is the current" in applied("report", "shop.raw", "--sequence", "4").stderr
        assert "did not change" in applied("report", "shop.raw", "--version", "v1", "--sequence", "6").stderr
        assert applied.json("report", "shop.raw", "--payload", '{"path": "x"}')["dataVersion"].startswith("seq:")

    def test_a_report_says_what_it_loses(self, freshline: Freshline, store: Store) -> None:
        """On the terminal and in JSON, and `why` says it afterwards."""
        (freshline.project / "sources" / "raw.yaml").write_text("{assetId: shop.raw, format: csv, path: inbox}")
        freshline("apply", "--yes")
        freshline("report", "shop.raw", "--payload", '{"path": "inbox/1.csv"}')
        told = freshline("report", "shop.raw", "--payload", '{"path": "inbox/2.csv"}').stderr
        assert "warning: version 1 of 'shop.raw' (inbox/1.csv) is replaced before 'make-clean' read it" in told
        assert "declare `mode: append`" in told
        found = freshline.json("report", "shop.raw", "--payload", '{"path": "inbox/3.csv"}')
        assert len(found["warnings"]) == 1
        settle(store)
        lines = " ".join(freshline("why", "shop.clean").stdout.split())
        assert "warning: version 2 of 'shop.raw' (inbox/2.csv) and 1 more were replaced before 'make-clean'" in lines

    def test_a_produced_asset_cannot_be_reported(self, applied: Freshline) -> None:
        """Refused with what to do instead."""
        assert "freshline run make-clean" in applied("report", "shop.clean", code=1).stderr

    def test_expire(self, applied: Freshline) -> None:
        """Tells when it expires; a source has nothing to expire."""
        assert applied.json("expire", "shop.clean")["assetId"] == "shop.clean"
        assert "freshline why shop.clean" in applied("expire", "shop.clean").stderr
        assert "source" in applied("expire", "shop.raw", code=1).stderr


class TestRun:
    """`freshline run`, `cancel` and `logs`."""

    def test_a_run_is_queued_with_its_parameters(self, applied: Freshline) -> None:
        """JSON values are JSON, others text; the same key is the same run."""
        applied("report", "shop.raw")
        words = ["run", "make-clean", "--param", "n=3", "--param", "day=2013-01-04", "--param", 'l=["a"]']
        found = applied.json(*words, "--key", "k")
        assert found["parameters"] == {"n": 3, "day": "2013-01-04", "l": ["a"]}
        assert (found["status"], found["trigger"]["type"]) == ("queued", "manual")
        assert applied.json(*words, "--key", "k")["id"] == found["id"]
        assert "with other parameters" in applied("run", "make-clean", "--key", "k", code=1).stderr

    @pytest.mark.parametrize(("answer", "runs"), [("y\n", 1), ("n\n", 0)])
    def test_a_full_refresh_that_drops_rows_asks(
        self, freshline: Freshline, store: Store, answer: str, runs: int
    ) -> None:
        """It says how many rows of what. Without a terminal it needs --yes, and nothing is queued before."""
        collected(freshline, store)
        error = freshline("run", "collect", "--full-refresh", code=1).stderr
        assert "drops rows that cannot be computed again: 'all.orders' has 7 rows of 2 versions" in error
        assert "repeat it with --yes" in error
        assert "table rollback all.orders --to 2" in error
        with patch("freshline.cli.commands.run._on_a_terminal", return_value=True):
            told = freshline("run", "collect", "--full-refresh", stdin=answer, code=1 - runs).stderr
        assert "Drop these rows? [y/N]" in told
        assert ("nothing was done" in told) == (runs == 0)
        assert len(store.reader.runs(status="queued")) == runs
        freshline("run", "collect", "--full-refresh", "--yes")
        assert len(store.reader.runs(status="queued")) == runs + 1

    def test_an_asset_stands_for_the_workflow_that_makes_it(self, applied: Freshline) -> None:
        """A source has none, and an unknown name is neither."""
        applied("report", "shop.raw")
        assert applied.json("run", "shop.clean")["workflowSlug"] == "make-clean"
        assert "run" in applied("run", "shop.clean").stderr
        source = applied("run", "shop.raw", code=2).stderr
        assert "asset 'shop.raw' is a source; no workflow produces it (`freshline report shop.raw`" in source
        unknown = applied("run", "shop.cleen", code=1).stderr
        assert "asset or workflow 'shop.cleen' does not exist" in unknown
        assert "did you mean 'shop.clean'" in unknown

    def test_a_parameter_that_nobody_declared_is_warned_about(self, applied: Freshline) -> None:
        """The run is queued all the same: a job may read any parameter."""
        applied("report", "shop.raw")
        found = applied("run", "make-clean", "--param", "dya=1")
        assert "warning: workflow 'make-clean' declares no parameter 'dya'; known are none" in found.stderr
        assert applied.json("runs")[0]["parameters"] == {"dya": 1}

    def test_missing_inputs_are_told(self, applied: Freshline) -> None:
        """A run that could not read its input is refused with what to do."""
        assert "freshline report shop.raw" in applied("run", "make-clean", code=1).stderr

    def test_cancel(self, applied: Freshline) -> None:
        """A queued run ends at once, with the reason stored; ending it again changes nothing."""
        applied("report", "shop.raw")
        run_id = applied.json("run", "make-clean")["id"]
        assert applied.json("cancel", run_id[-8:], "--reason", "wrong day") == {"runId": run_id, "status": "canceled"}
        assert applied.json("runs")[0]["cancelReason"] == "wrong day"
        assert "is canceled" in applied("cancel", run_id).stderr

    @pytest.mark.parametrize(("ending", "code"), [("succeeded", 0), ("canceled", 1)])
    def test_wait_ends_with_the_run(
        self, applied: Freshline, store: Store, ending: str, code: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The exit code is the run's; a queue without a worker is noted."""
        monkeypatch.setattr(run_module, "QUEUED_LONG_S", 0)
        applied("report", "shop.raw")

        def end() -> None:
            (run,) = wait_until(lambda: store.reader.runs(status="queued"))
            if ending == "canceled":
                store.operations.cancel(run["id"])
                return
            finish = (
                "UPDATE runs SET status = 'succeeded', started_at = freshline_now(), attempt = 1,"
                " finished_at = freshline_now() WHERE id = %s"
            )
            with store.database.transaction("test") as connection:
                connection.execute(finish, [run["id"]])

        ender = threading.Thread(target=end)
        ender.start()
        result = applied("run", "make-clean", "--wait", code=code)
        ender.join()
        assert ending in result.stderr
        assert result.stdout == ""

    def test_ctrl_c_leaves_the_run_and_says_so(
        self, applied: Freshline, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever stops to wait would otherwise think that the run has stopped too."""

        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(run_module, "_wait", interrupted)
        applied("report", "shop.raw")
        said = applied("run", "make-clean", "--wait", code=130).stderr
        (run,) = store.reader.runs(status="queued")
        short = run["id"][-8:]
        assert f"run {short} goes on; `freshline logs {short} -f` follows it" in said
        assert f"`freshline cancel {short}` stops it" in said

    def test_a_run_that_has_ended_is_not_canceled(self, applied: Freshline, store: Store) -> None:
        """The answer says so, and not that it is succeeded."""
        applied("report", "shop.raw")
        run_id = applied.json("run", "make-clean")["id"]
        finish = (
            "UPDATE runs SET status = 'succeeded', started_at = freshline_now(), attempt = 1,"
            " finished_at = freshline_now() WHERE id = %s"
        )
        with store.database.transaction("test") as connection:
            connection.execute(finish, [run_id])
        assert f"run {run_id[-8:]} succeeded already; nothing is canceled" in applied("cancel", run_id).stderr

    def test_logs(self, applied: Freshline, store: Store) -> None:
        """Lines with their step, as text and as JSON; following ends with the run."""
        applied("report", "shop.raw")
        run_id = applied.json("run", "make-clean")["id"]
        assert "printed nothing" in applied("logs", run_id).stderr
        line = "INSERT INTO run_logs VALUES (%s, 1, 1, 'one', freshline_now(), 'stdout', 'hello [red]')"
        with store.database.transaction("test") as connection:
            connection.execute(line, [run_id])
        store.operations.cancel(run_id)
        for words in (["logs", run_id[-8:]], ["logs", run_id, "--follow"]):
            assert "one hello [red]" in applied(*words).stdout
        (found,) = applied.json("logs", run_id)
        assert (found["line"], found["stepId"], found["stream"], found["text"]) == (1, "one", "stdout", "hello [red]")

    def test_the_last_lines_and_those_of_a_period(self, applied: Freshline, store: Store) -> None:
        """`--tail`, also before following, `--since` and `--until`."""
        applied("report", "shop.raw")
        run_id = applied.json("run", "make-clean")["id"]
        line = "INSERT INTO run_logs SELECT %s, n, 1, 'one', freshline_now() - (10 - n) * interval '1 min', 'stdout', n"
        with store.database.transaction("test") as connection:
            connection.execute(f"{line} FROM generate_series(1, 9) n", [run_id])
        store.operations.cancel(run_id)
        assert [one["line"] for one in applied.json("logs", run_id, "--tail", "2")] == [8, 9]
        assert [one["line"] for one in applied.json("logs", run_id, "--since", "210s")] == [7, 8, 9]
        assert [one["line"] for one in applied.json("logs", run_id, "--until", "450s", "--tail", "1")] == [2]
        assert applied("logs", run_id, "--follow", "--tail", "2").stdout.count(" one ") == 2
        assert "printed nothing then" in applied("logs", run_id, "--until", "1d").stderr


class TestPause:
    """`freshline pause`, `resume` and `reset`."""

    def test_pause_and_resume(self, applied: Freshline) -> None:
        """The answer is the workflow's status; the end may be a duration or a time."""
        assert applied.json("pause", "make-clean")["paused"]["until"] is None
        assert applied.json("pause", "make-clean", "--until", "2h")["paused"]["until"] is not None
        found = applied.json("pause", "make-clean", "--until", "2999-01-01T00:00:00Z")
        assert found["paused"]["until"] == "2999-01-01T00:00:00Z"
        assert "is paused until 2h" in applied("pause", "make-clean", "--until", "2h").stderr
        assert applied.json("resume", "make-clean")["paused"] is False
        assert "not paused" in applied("resume", "make-clean").stderr

    def test_a_paused_workflow_is_held(self, applied: Freshline, store: Store) -> None:
        """The hold that people see is the pause."""
        applied("report", "shop.raw")
        applied("pause", "make-clean")
        settle(store)
        assert "it is paused" in applied("why", "shop.clean").stdout
        assert applied.json("status", "shop.clean")["assets"][0]["hold"]["reason"] == "paused"

    def test_reset(self, applied: Freshline, store: Store) -> None:
        """Failures and breaker are gone."""
        failing = (
            "INSERT INTO workflow_partitions (workflow_id, partition_key, failures, failed_at, eligible_at, breaker_at)"
            " SELECT id, '', 5, now(), now(), now() FROM workflows WHERE slug = 'make-clean'"
            " ON CONFLICT (workflow_id, partition_key) DO UPDATE SET failures = 5, failed_at = now(),"
            " eligible_at = now(), breaker_at = now()"
        )
        with store.database.transaction("test") as connection:
            connection.execute(failing)
        assert applied.json("status", "make-clean")["workflows"][0]["breaker"]["state"] == "open"
        found = applied.json("reset", "make-clean")
        assert found["breaker"]["state"] == "closed"
        assert found["cooldown"] == {"failures": 0, "nextEligibleAt": None}
        assert "is reset" in applied("reset", "make-clean").stderr


def test_a_report_is_explained_from_cause_to_run(applied: Freshline, store: Store) -> None:
    """With the real services: the report becomes a decision with evidence and a queued run that `why` explains."""
    applied("report", "shop.raw", "--version", "v1")
    settle(store)
    (run,) = applied.json("runs")
    assert (run["workflowSlug"], run["trigger"]["reason"]) == ("make-clean", "missing")
    assert run["inputs"] == [{"assetId": "shop.raw", "partitionKey": "", "dataVersion": "v1", "version": 1}]
    assert "'shop.clean' was never produced" in applied("why", "shop.clean").stdout
    assert "'shop.clean' does not exist yet" in applied("why", "shop.daily").stdout
    states = {one["assetId"]: one["state"] for one in applied.json("status")["assets"]}
    assert states == {"shop.raw": "source", "shop.clean": "missing", "shop.daily": "missing"}
    types = [one["type"] for one in applied.json("events")]
    assert "asset.produced" in types
    assert "workflow.run.queued" in types
