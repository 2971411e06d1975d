"""The read side of the store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from freshline.errors import NotFoundError, UsageError
from freshline.model.documents.status import WantedStatus
from freshline.store.db.database import Database
from freshline.store.read.reader import Reader
from freshline.store.read.session import ReadSession
from tests.rows import Rows, ago, auto


@pytest.fixture
def rows(database_url: str) -> Iterator[Rows]:
    """Return a writer of stored rows."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.fixture
def reader(database_url: str) -> Iterator[Reader]:
    """Return the reader under test."""
    database = Database(database_url, name="test")
    database.open()
    yield Reader(database)
    database.close()


def chain(rows: Rows) -> None:
    """Insert a source raw -> clean -> daily, all computed from current data."""
    rows.source("raw")
    rows.workflow("make-clean", ["clean"], ["raw"])
    rows.workflow("make-daily", ["daily"], ["clean"])
    rows.snapshot("raw", "r1")
    run = rows.run("make-clean", pins={"raw": {"sequence": 1, "dataVersion": "r1"}})
    rows.snapshot("clean", "c1", run_id=run, rows=3, bytes=99)
    rows.snapshot("daily", "d1", run_id=rows.run("make-daily"))
    rows.partition("make-clean", {"raw": "r1"})
    rows.partition("make-daily", {"clean": "c1"})


def states(reader: Reader) -> dict[str, str]:
    """Return the state of each asset; the picture of the graph has the same states."""
    whole = {one["assetId"]: one["state"] for one in reader.status(None, WantedStatus(everything=True))["assets"]}
    assert reader.graph_view.states()["states"] == whole
    return {one["assetId"]: one["state"] for one in reader.status()["assets"]}


class TestRuns:
    """Lists of runs, and single runs."""

    def test_has_the_fields_that_checks_rely_on(self, rows: Rows, reader: Reader) -> None:
        """A run has the fields of the contract, in camelCase, with times in UTC."""
        rows.workflow("w", ["a"])
        run_id = rows.run("w", pins={"raw": {"sequence": 4, "dataVersion": "v4"}}, parameters={"day": 1})
        rows.insert("run_steps", run_id=run_id, step_id="one", attempt=1, **{"try": 1}, **_finished())
        (run,) = reader.runs()
        assert {"id", "workflowSlug", "partitionKey", "status", "attempt", "trigger", "queuedAt"} <= run.keys()
        assert {"startedAt", "finishedAt", "error", "inputs", "steps", "mixed", "parameters"} <= run.keys()
        assert {"priority", "workerId", "leaseUntil", "cancelReason", "decisionId"} <= run.keys()
        assert (run["id"], run["workflowSlug"], run["status"]) == (run_id, "w", "succeeded")
        assert run["inputs"] == [{"assetId": "raw", "partitionKey": "", "dataVersion": "v4", "version": 4}]
        assert run["queuedAt"].endswith("Z")
        assert [step["stepId"] for step in run["steps"]] == ["one"]

    def test_pages_newest_first(self, rows: Rows, reader: Reader) -> None:
        """Pages follow each other without a gap or a repeat, also where queue times are equal."""
        rows.workflow("w", ["a"])
        for queued in (50, 40, 40, 40, 30):
            rows.run("w", queued=queued)
        whole = [run["id"] for run in reader.runs(limit=10)]
        first = [run["id"] for run in reader.runs(limit=2)]
        second = [run["id"] for run in reader.runs(limit=10, after=first[-1])]
        assert len(whole) == 5
        assert first + second == whole

    def test_filters_by_status_and_workflow(self, rows: Rows, reader: Reader) -> None:
        """Filters combine."""
        rows.workflow("w", ["a"])
        rows.workflow("x", ["b"])
        failed = rows.run("w", "failed")
        rows.run("w")
        rows.run("x", "failed")
        assert [run["id"] for run in reader.runs(status="failed", workflow="w")] == [failed]

    def test_an_unknown_workflow_is_answered_with_the_nearest(self, rows: Rows, reader: Reader) -> None:
        """A typo gets a hint."""
        rows.workflow("flights", ["a"])
        with pytest.raises(NotFoundError, match="did you mean 'flights'"):
            reader.runs(workflow="flihgts")

    def test_a_run_is_found_by_the_end_of_its_id(self, rows: Rows, reader: Reader) -> None:
        """Six hex digits are enough if they are unique; dashes and case do not matter."""
        rows.workflow("w", ["a"])
        run_id = rows.run("w", id="0198c000-0000-7000-8000-00000abcdef1")
        rows.run("w", id="0198c000-0000-7000-8000-00000abcdef2")
        assert reader.find_run("abcdef1") == run_id
        assert reader.find_run(run_id.upper()) == run_id
        assert reader.run("bcdef1")["outputs"] == []

    @pytest.mark.parametrize(
        ("text", "kind", "message"),
        [
            ("def", UsageError, "at least its last 6"),
            ("no-run!", UsageError, "is not a run id"),
            ("%%%%%%", UsageError, "is not a run id"),
            ("000000", NotFoundError, "no run has the id"),
            ("abcdef", UsageError, "several runs end with"),
        ],
    )
    def test_a_wrong_id_is_explained(
        self, rows: Rows, reader: Reader, text: str, kind: type[Exception], message: str
    ) -> None:
        """Too short, no id at all, unknown and ambiguous are told apart."""
        rows.workflow("w", ["a"])
        rows.run("w", id="0198c000-0000-7000-8000-000001abcdef")
        rows.run("w", id="0198c000-0000-7000-8000-000002abcdef")
        with pytest.raises(kind, match=message):
            reader.find_run(text)

    def test_one_run_says_what_it_published(self, rows: Rows, reader: Reader) -> None:
        """The outputs of a run are its snapshots."""
        chain(rows)
        run_id = reader.runs(workflow="make-clean")[0]["id"]
        (published,) = reader.run(run_id)["outputs"]
        assert (published["assetId"], published["dataVersion"], published["rows"]) == ("clean", "c1", 3)

    def test_moving_runs_are_the_active_the_tracked_and_the_late(self, rows: Rows, reader: Reader) -> None:
        """A follower sees what is active, what it tracks, and what was queued in the overlap; nothing older."""
        rows.workflow("w", ["a"])
        old, tracked = rows.run("w", queued=9000), rows.run("w", queued=8000)
        active, late = rows.run("w", "queued", queued=7000), rows.run("w", queued=30)
        moving = [run["id"] for run in reader.moving_runs(ago(0), [tracked])]
        assert moving == [tracked, active, late]
        assert old not in moving


class TestLogs:
    """The output of runs."""

    def test_lines_come_in_order_after_a_line(self, rows: Rows, reader: Reader) -> None:
        """A follower asks for the lines after the last one that it has."""
        rows.workflow("w", ["a"])
        run_id = rows.run("w")
        for line in (2, 1, 3):
            common = {"attempt": 1, "step_id": "one", "at": ago(0), "stream": "log"}
            rows.insert("run_logs", run_id=run_id, line=line, text=f"line {line}", **common)
        assert [one["text"] for one in reader.logs(run_id)] == ["line 1", "line 2", "line 3"]
        assert [one["line"] for one in reader.logs(run_id[-8:], after=2)] == [3]


EVENT = {"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "position", "data"}


class TestEvents:
    """The event log."""

    def test_has_the_fields_and_pages(self, rows: Rows, reader: Reader) -> None:
        """Events have the fields of the contract and continue after an id or a position."""
        ids = [rows.event("asset.produced", "a", at=30 - n, position=n) for n in (1, 2, 3)]
        listed = reader.events()
        assert set(listed[0]) == EVENT
        assert [one["id"] for one in listed] == ids[::-1]
        assert [one["id"] for one in reader.events(after=ids[2])] == [ids[1], ids[0]]
        assert [one["id"] for one in reader.events(after="2")] == [ids[0]]

    def test_type_is_a_name_or_its_beginning(self, rows: Rows, reader: Reader) -> None:
        """`workflow.run` means all run events, and never a type that only looks alike."""
        for type_ in ("workflow.run.queued", "workflow.run.failed", "workflow.runner", "asset.produced"):
            rows.event(type_, "x")
        assert len(reader.events(type="workflow.run")) == 2
        assert len(reader.events(type="workflow.run.*")) == 2
        assert len(reader.events(type="asset.produced")) == 1
        assert reader.events(type="asset.produced", subject="y") == []

    def test_followers_read_stamped_positions_only(self, rows: Rows, reader: Reader) -> None:
        """An event without a position is not given to a follower: a lower one may still come."""
        rows.event("asset.produced", "a", position=1)
        rows.event("asset.produced", "b", position=2)
        rows.event("asset.produced", "c")
        assert [one["subject"] for one in reader.events_since(1)] == ["b"]
        assert reader.position() == 2

    @pytest.mark.parametrize(
        ("text", "kind"),
        [("x", UsageError), ("99", NotFoundError), ("0198c000-0000-7000-8000-000000000001", NotFoundError)],
    )
    def test_an_unknown_cursor_is_refused(self, reader: Reader, text: str, kind: type[Exception]) -> None:
        """A cursor that does not exist is an error, not an empty page."""
        with pytest.raises(kind):
            reader.events(after=text)


class TestDecisions:
    """Decisions and `why`."""

    def test_has_the_fields_and_pages(self, rows: Rows, reader: Reader) -> None:
        """Decisions have the fields of the contract, newest first."""
        rows.workflow("w", ["a"])
        ids = [rows.decision("w", "skip", "up-to-date", at=at) for at in (30, 20, 10)]
        listed = reader.decisions()
        wanted = {
            "id",
            "workflowSlug",
            "partitionKey",
            "outcome",
            "reason",
            "at",
            "lastAt",
            "count",
            "evidence",
            "runId",
        }
        assert wanted <= listed[0].keys()
        assert [one["id"] for one in listed] == ids[::-1]
        assert [one["id"] for one in reader.decisions(after=ids[2], limit=1)] == [ids[1]]

    def test_an_asset_means_the_workflow_that_makes_it(self, rows: Rows, reader: Reader) -> None:
        """`why` and `--asset` follow the producer; a source has no decisions."""
        rows.source("raw")
        rows.workflow("w", ["a"], ["raw"])
        rows.workflow("x", ["b"], ["a"])
        rows.decision("w", "skip", "up-to-date")
        rows.decision("x", "hold", "paused")
        assert [one["workflowSlug"] for one in reader.decisions(asset="b")] == ["x"]
        assert [one["reason"] for one in reader.why("b")] == ["paused"]
        assert [one["reason"] for one in reader.why("w")] == ["up-to-date"]
        assert reader.why("raw") == []

    def test_unknown_cursors_and_names_are_refused(self, rows: Rows, reader: Reader) -> None:
        """No silent empty answers."""
        rows.workflow("w", ["sales.daily"])
        with pytest.raises(UsageError, match="not a decision's id"):
            reader.decisions(after="7")
        with pytest.raises(NotFoundError, match=r"did you mean 'sales\.daily'"):
            reader.why("sales.dayly")


class TestState:
    """The state of an asset (docs/semantics.md#R5.2)."""

    def test_settled_chain_is_fresh(self, rows: Rows, reader: Reader) -> None:
        """Computed from the current inputs: fresh; made outside: source."""
        chain(rows)
        assert states(reader) == {"raw": "source", "clean": "fresh", "daily": "fresh"}

    def test_a_changed_input_makes_stale(self, rows: Rows, reader: Reader) -> None:
        """Another data version of a triggering input, and only that, makes an asset stale."""
        chain(rows)
        rows.snapshot("raw", "r2", 2)
        assert states(reader) == {"raw": "source", "clean": "stale", "daily": "fresh"}

    def test_an_equal_data_version_is_fresh(self, rows: Rows, reader: Reader) -> None:
        """A newer snapshot with the same content changes nothing."""
        chain(rows)
        rows.snapshot("raw", "r1", 2)
        assert states(reader)["clean"] == "fresh"

    def test_an_input_that_may_not_trigger_is_ignored(self, rows: Rows, reader: Reader) -> None:
        """Pinned inputs never make stale."""
        rows.source("raw", "side")
        rows.workflow("w", ["a"], {"raw": True, "side": False})
        for name in ("raw", "side", "a"):
            rows.snapshot(name, "1")
        rows.partition("w", {"raw": "1", "side": "0"})
        assert states(reader)["a"] == "fresh"

    @pytest.mark.parametrize("kind", ["expired", "due", "touched", "changed", "definition"])
    def test_other_causes_make_stale(self, rows: Rows, reader: Reader, kind: str) -> None:
        """Expiry, a due consideration, an unread event and a changed job each make stale."""
        chain(rows)
        clean = rows.ids["make-clean"]
        event = {"event_id": "0198c000-0000-7000-8000-000000000001", "partition_key": "", "at": ago(0)}
        if kind == "expired":
            timer = {"asset_id": "clean", "partition_key": "", "kind": "expiry"}
            rows.insert("timers", **timer, expired_at=ago(1), expired_reason="ttl")
        elif kind == "due":
            rows.consideration("make-clean", due=-1)
        elif kind == "touched":
            rows.insert("inbox", kind="touched", workflow_id=clean, **event)
        elif kind == "changed":
            rows.insert("inbox", kind="changed", asset_id="raw", **event)
        else:
            rows.update("UPDATE workflows SET job_fingerprint = 'j2' WHERE id = %s", clean)
        assert states(reader) == {"raw": "source", "clean": "stale", "daily": "fresh"}

    def test_data_that_its_workflow_never_made_is_stale(self, rows: Rows, reader: Reader) -> None:
        """A source that became a workflow's output keeps its data, which was computed from nothing that is known."""
        rows.source("raw")
        rows.workflow("w", ["a"], ["raw"])
        rows.snapshot("raw", "r1")
        rows.snapshot("a", "a1")
        assert states(reader)["a"] == "stale"

    def test_a_later_look_is_no_reason(self, rows: Rows, reader: Reader) -> None:
        """A consideration that is not due yet, and holds nothing back, changes no state."""
        chain(rows)
        rows.consideration("make-clean", due=600)
        assert states(reader)["clean"] == "fresh"

    def test_order_of_states(self, rows: Rows, reader: Reader) -> None:
        """running, failing, missing, waiting, stale: the first that holds is shown."""
        chain(rows)
        rows.snapshot("raw", "r2", 2)
        rows.consideration("make-clean", due=60, hold="debouncing")
        assert states(reader)["clean"] == "waiting"
        rows.update("UPDATE workflow_partitions SET failures = 2, eligible_at = now() WHERE consumed_versions ? 'raw'")
        assert states(reader)["clean"] == "failing"
        rows.update("DELETE FROM heads WHERE asset_id = 'clean'")
        assert states(reader)["clean"] == "failing"
        rows.update("UPDATE workflow_partitions SET failures = 0, eligible_at = NULL WHERE consumed_versions ? 'raw'")
        assert states(reader)["clean"] == "missing"
        rows.run("make-clean", "running")
        assert states(reader)["clean"] == "running"

    def test_a_queued_run_is_waiting(self, rows: Rows, reader: Reader) -> None:
        """Queued work waits for a worker."""
        chain(rows)
        rows.run("make-clean", "queued")
        assert states(reader)["clean"] == "waiting"


class TestStatus:
    """The rest of `status`."""

    def test_has_the_fields_that_checks_rely_on(self, rows: Rows, reader: Reader) -> None:
        """Assets and workflows have the fields of the contract."""
        chain(rows)
        found = reader.status()
        wanted = {"assetId", "state", "producedAt", "expiresAt", "dataVersion", "version", "lastAutoRun"}
        assert wanted | {"nextRefreshAt", "hold"} <= found["assets"][0].keys()
        assert {"slug", "workflowVersion", "paused", "inFlight", "runsAvoided"} <= found["workflows"][0].keys()
        assert found["workflows"][0]["cooldown"] == {"failures": 0, "nextEligibleAt": None}
        assert found["workflows"][0]["breaker"] == {"state": "closed", "openedAt": None}
        assert found["workflows"][0]["paused"] is False

    def test_last_automatic_run_is_not_a_manual_one(self, rows: Rows, reader: Reader) -> None:
        """Manual runs do not count as automatic."""
        rows.workflow("w", ["a"])
        run_id = rows.run("w", queued=50, trigger=auto("expired"))
        rows.run("w", queued=10, trigger={"type": "manual"})
        (asset,) = reader.status()["assets"]
        last = asset["lastAutoRun"]
        assert last
        assert (last["runId"], last["status"], last["reason"]) == (run_id, "succeeded", "expired")
        assert (last["finishedAt"] or "").endswith("Z")

    def test_hold_names_reason_end_and_blocker(self, rows: Rows, reader: Reader) -> None:
        """A hold tells why, until when and for whom; its end comes from the decision where it blocks nobody."""
        chain(rows)
        evidence = {"deadline": "2026-01-01T10:00:00Z"}
        rows.decision("make-daily", "hold", "waiting-for-upstream", evidence=evidence)
        hold = {"hold": "waiting-for-upstream", "blocker_id": rows.ids["make-clean"]}
        rows.consideration("make-daily", due=60, **hold)
        wanted = {"reason": "waiting-for-upstream", "until": "2026-01-01T10:00:00Z", "blocker": "make-clean"}
        found = reader.status("daily")
        assert found["assets"][0]["hold"] == wanted
        assert found["workflows"][0]["hold"] == wanted

    def test_next_refresh(self, rows: Rows, reader: Reader) -> None:
        """The timer counts for automatic workflows; a cooldown counts before it; an endless pause means never."""
        rows.workflow("w", ["a"])
        rows.workflow("m", ["b"], automatic=False)
        for asset in ("a", "b"):
            timer = {"asset_id": asset, "partition_key": "", "kind": "expiry"}
            rows.insert("timers", **timer, due_at=ago(-90), reason="ttl")
        due = {one["assetId"]: one["nextRefreshAt"] for one in reader.status()["assets"]}
        assert due["a"] == (ago(-90)).isoformat().replace("+00:00", "Z")
        assert due["b"] is None
        rows.partition("w", failures=1, eligible_at=ago(-300))
        late = (ago(-300)).isoformat().replace("+00:00", "Z")
        assert reader.status("a")["assets"][0]["nextRefreshAt"] == late
        rows.update("UPDATE workflows SET paused_at = now() WHERE slug = 'w'")
        assert reader.status("a")["assets"][0]["nextRefreshAt"] is None

    def test_pause_breaker_cooldown_and_run_in_flight(self, rows: Rows, reader: Reader) -> None:
        """A workflow's troubles are all in its entry."""
        rows.workflow("w", ["a"], paused_at=ago(5), paused_until=ago(-3600))
        rows.partition("w", failures=5, eligible_at=ago(0), breaker_at=ago(4))
        run_id = rows.run("w", "running")
        (found,) = reader.status("w")["workflows"]
        assert found["paused"]
        assert found["paused"]["until"] is not None
        assert found["breaker"]["state"] == "open"
        assert found["cooldown"]["failures"] == 5
        assert (found["inFlight"], found["inFlightStatus"]) == (run_id, "running")

    def test_one_name_shows_what_belongs_to_it(self, rows: Rows, reader: Reader) -> None:
        """An asset brings its workflow, a workflow its assets, a source nothing else."""
        chain(rows)
        of_asset, of_slug, of_source = reader.status("clean"), reader.status("make-daily"), reader.status("raw")
        assert ([a["assetId"] for a in of_asset["assets"]], [w["slug"] for w in of_asset["workflows"]]) == (
            ["clean"],
            ["make-clean"],
        )
        assert [a["assetId"] for a in of_slug["assets"]] == ["daily"]
        assert of_source["workflows"] == []

    def test_retired_workflows_are_not_listed(self, rows: Rows, reader: Reader) -> None:
        """History stays, the listing does not."""
        rows.workflow("w", [], retired_at=ago(1))
        assert reader.status()["workflows"] == []

    def test_notes_say_who_is_missing(self, rows: Rows, reader: Reader) -> None:
        """Queued runs without a living worker of their project are told; a living one ends the note."""
        rows.workflow("w", ["a"])
        rows.run("w", "queued", code_hash="c0")
        rows.worker(seen=3600, project="shop", code_hash="c0")
        rows.worker(project="elsewhere")
        assert reader.status()["notes"] == ["1 run is queued and no worker of project shop is running"]
        rows.worker(project="shop", code_hash="c0")
        assert reader.status()["notes"] == []

    def test_notes_say_what_workers_cannot_do(self, rows: Rows, reader: Reader) -> None:
        """Other code, an engine that does not work, and events that nobody absorbs."""
        made = rows.workflow("w", ["a"])
        rows.run("w", "queued", code_hash="c1")
        rows.worker(project="shop", code_hash="c0", info={"engine": "no Java"})
        event = {"event_id": "0198c000-0000-7000-8000-000000000001", "partition_key": "", "at": ago(0)}
        rows.insert("inbox", kind="touched", workflow_id=made, **event)
        code, events, engine = reader.status()["notes"]
        assert "other code than the workers have" in code
        assert "no materializer is running" in events
        assert engine == "a worker takes no Spark runs: no Java"


class TestGraph:
    """The graph of assets and workflows."""

    def test_whole_and_around_an_asset(self, rows: Rows, reader: Reader) -> None:
        """Around an asset are its ancestors and descendants, and no siblings."""
        chain(rows)
        rows.workflow("side", ["aside"], {"raw": False})
        whole, near = reader.graph(), reader.graph("clean")
        assert {a["assetId"] for a in whole["assets"]} == {"raw", "clean", "daily", "aside"}
        assert {a["assetId"] for a in near["assets"]} == {"raw", "clean", "daily"}
        edge = {"from": "raw", "to": "aside", "workflowSlug": "side", "triggers": False}
        assert edge in whole["edges"]
        assert edge not in near["edges"]
        assert [w["slug"] for w in near["workflows"]] == ["make-clean", "make-daily"]


class TestSnapshots:
    """The history of an asset."""

    def test_head_version_and_history(self, rows: Rows, reader: Reader) -> None:
        """The current snapshot, one by its version, and all of them newest first."""
        rows.source("raw")
        rows.snapshot("raw", "r1", 1)
        rows.snapshot("raw", "r2", 2)
        assert reader.snapshot("raw")["dataVersion"] == "r2"
        assert reader.snapshot("raw", 1)["dataVersion"] == "r1"
        assert [(one["version"], one["head"]) for one in reader.snapshots("raw")] == [(2, True), (1, False)]

    def test_a_missing_version_is_explained(self, rows: Rows, reader: Reader) -> None:
        """Never produced, and no such version, are told apart."""
        rows.source("raw", "none")
        rows.snapshot("raw", "r1", 1)
        with pytest.raises(NotFoundError, match="no version 9; the newest is 1"):
            reader.snapshot("raw", 9)
        with pytest.raises(NotFoundError, match="never produced"):
            reader.snapshot("none")


class TestWorkers:
    """Processes."""

    def test_live_silent_and_stopped(self, rows: Rows, reader: Reader) -> None:
        """A silent process is not live, a stopped one is listed on demand, runs are with their holder."""
        rows.workflow("w", ["a"])
        live, silent, stopped = rows.worker(), rows.worker(seen=3600), rows.worker(seen=2, stopped_at=ago(0))
        run_id = rows.run("w", "running", worker_id=live)
        found = {one["id"]: one for one in reader.workers()}
        assert (found[live]["live"], found[silent]["live"]) == (True, False)
        assert found[live]["runs"] == [run_id]
        assert stopped not in found
        assert stopped in {one["id"] for one in reader.workers(stopped=True)}


class TestReading:
    """What all methods have in common."""

    def test_it_cannot_write(self, reader: Reader) -> None:
        """The reader's transactions are read-only in the database's eyes."""
        with reader._session() as session, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            session._connection.execute("DELETE FROM workers")

    def test_the_number_of_statements_is_fixed(
        self, rows: Rows, reader: Reader, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ten times the assets and runs cost no more statements."""
        counted: list[str] = []
        original = ReadSession.rows

        def counting(session: ReadSession, name: str, /, **parameters: Any) -> list[Any]:
            counted.append(name)
            return original(session, name, **parameters)

        monkeypatch.setattr(ReadSession, "rows", counting)

        def cost() -> int:
            counted.clear()
            reader.status()
            reader.runs(limit=1000)
            reader.graph()
            return len(counted)

        chain(rows)
        rows.workflow("late", ["late"], ["raw"])  # there is something to explain
        few = cost()
        for number in range(10):
            rows.workflow(f"w{number}", [f"a{number}"], ["raw"])
            rows.run(f"w{number}")
        assert cost() == few


def _finished() -> dict[str, object]:
    return {"status": "succeeded", "started_at": ago(5), "finished_at": ago(4), "outputs": []}
