"""Commands that list runs, events, decisions and workflows, and follow them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from freshline.cli.commands import listings
from freshline.cli.follow import DecisionFollower, EventFollower, RunFollower, entries
from freshline.cli.render import listing
from freshline.model.documents.decision import Decision
from freshline.model.documents.event import Event
from freshline.model.documents.run import Run
from freshline.store.store import Store
from tests.cli.conftest import Freshline
from tests.rows import Rows, ago, auto


def ids(found: Sequence[Run | Decision]) -> list[str]:
    """Return the ids in their order."""
    return [one["id"] for one in found]


class TestRuns:
    """`freshline runs`."""

    def test_json_is_a_list_with_the_fields_of_the_contract(self, freshline: Freshline, rows: Rows) -> None:
        """Newest first, each with id, slug, status, attempt, trigger, times, error and inputs."""
        rows.workflow("w", ["a"])
        rows.run("w", queued=50)
        rows.run("w", "failed", queued=10, pins={"raw": {"sequence": 1, "dataVersion": "v1"}})
        found = freshline.json("runs")
        assert [one["status"] for one in found] == ["failed", "succeeded"]
        wanted = {"id", "workflowSlug", "partitionKey", "status", "attempt", "trigger", "queuedAt", "startedAt"}
        assert wanted | {"finishedAt", "error", "inputs"} <= found[0].keys()
        assert found[0]["inputs"][0]["assetId"] == "raw"
        assert found[0]["trigger"]["type"] == "auto-materialize"

    def test_table_shows_the_short_id_the_cause_and_the_error(self, freshline: Freshline, rows: Rows) -> None:
        """People see which run, why it exists and what went wrong."""
        rows.workflow("w", ["a"])
        upstream = [{"assetId": "raw", "from": "1", "to": "2"}]
        run_id = rows.run("w", "failed", trigger=auto(upstream=upstream), mixed=True)
        rows.run("w", "canceled", cancel_reason="superseded", trigger={"type": "manual"})
        text = freshline("runs").stdout
        for part in (run_id[-8:], "upstream-update: raw", "it broke", "mixed", "superseded", "manual"):
            assert part in text
        assert "failed mixed, because" in freshline("runs", run_id).stdout

    def test_pages_filters_and_emptiness(self, freshline: Freshline, rows: Rows) -> None:
        """Limit, after, status and workflow; no runs are an empty list and a sentence."""
        assert freshline.json("runs") == []
        assert "there are no runs yet; `freshline run SLUG` makes one" in freshline("runs").stderr
        rows.workflow("w", ["a"])
        made = [rows.run("w", queued=queued) for queued in (10, 20, 30)]
        assert ids(freshline.json("runs", "--limit", "1", "--after", made[0])) == [made[1]]
        assert freshline.json("runs", "--status", "failed") == []
        assert "nothing matches; leave out filters" in freshline("runs", "--status", "failed").stderr
        assert len(freshline.json("runs", "--workflow", "w", "--limit", "100000")) == 3

    def test_period_state_trigger_and_asset(self, freshline: Freshline, rows: Rows) -> None:
        """The filters of the API; times are ISO or a duration ago."""
        rows.workflow("w", ["a"])
        rows.workflow("v", ["b"])
        rows.source("s")
        old = rows.run("w", "failed", queued=7200)
        new = rows.run("w", queued=60, trigger={"type": "manual"})
        other = rows.run("v", queued=30)
        cases = {
            ("--since", "1h"): [other, new],
            ("--until", "1h"): [old],
            ("--since", ago(100).isoformat(), "--until", ago(45).isoformat()): [new],
            ("--state", "failed"): [old],
            ("--trigger", "manual"): [new],
            ("--asset", "b"): [other],
            ("--asset", "s"): [],
        }
        for words, expected in cases.items():
            assert ids(freshline.json("runs", *words)) == expected, words
        assert "'soon' is not a time; allowed are ISO times" in freshline("runs", "--since", "soon", code=2).stderr
        assert "which is not before" in freshline("runs", "--since", "1h", "--until", "2h", code=2).stderr
        assert "exclude each other" in freshline("runs", "--asset", "a", "--workflow", "w", code=2).stderr
        assert "are for the listing" in freshline("runs", "--since", "1h", "--follow", code=2).stderr
        assert "asset 's' is a source" in freshline("runs", "--asset", "s", "--follow", code=2).stderr


EVENT = {"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "position", "data"}


class TestEvents:
    """`freshline events`."""

    def test_json_and_table(self, freshline: Freshline, rows: Rows) -> None:
        """Both tell type, subject and what people look for in the data."""
        data = {"dataVersion": "v7", "changed": False, "runId": "0198c000-0000-7000-8000-0000000000aa"}
        event = rows.event("asset.produced", "shop.clean", position=1, data=data)
        rows.event("workflow.run.queued", "make-clean")
        found = freshline.json("events", "--type", "asset")
        assert ids(found) == [event]
        assert set(found[0]) == EVENT
        text = freshline("events").stdout
        for part in ("asset.produced", "shop.clean", "v7 (unchanged)", "run 000000aa", "workflow.run.queued"):
            assert part in text

    def test_an_asset_stands_for_its_workflow_too(self, freshline: Freshline, rows: Rows) -> None:
        """Its events and those of its runs, within a period."""
        rows.workflow("w", ["a"])
        made = rows.event("asset.produced", "a", at=7200)
        run = rows.event("workflow.run.queued", "w", at=60)
        rows.event("asset.produced", "b", at=60)
        assert ids(freshline.json("events", "--asset", "a")) == [run, made]
        assert ids(freshline.json("events", "--asset", "a", "--since", "1h")) == [run]
        assert ids(freshline.json("events", "--subject", "a")) == [made]
        assert "asset 'x' does not exist" in freshline("events", "--asset", "x", code=1).stderr
        assert "exclude each other" in freshline("events", "--asset", "a", "--subject", "a", code=2).stderr

    def test_a_type_that_no_event_has_is_warned_about(self, freshline: Freshline) -> None:
        """A beginning and a pattern are types; a misspelled one looks like an empty listing."""
        found = freshline("events", "--type", "asset.produce")
        assert "warning: no event has the type 'asset.produce'; did you mean 'asset.produced'?" in found.stderr
        for name in ("asset", "workflow.run", "workflow.*", "asset.produced", "*"):
            assert "warning" not in freshline("events", "--type", name).stderr, name
        assert freshline.json("events", "--type", "nope") == []


class TestDecisions:
    """`freshline decisions`."""

    def test_outcome_and_period(self, freshline: Freshline, rows: Rows) -> None:
        """The filters of the API."""
        rows.workflow("w", ["a"])
        old = rows.decision("w", "hold", "paused", at=7200)
        new = rows.decision("w", "skip", "fresh", at=60)
        assert ids(freshline.json("decisions", "--outcome", "hold")) == [old]
        assert ids(freshline.json("decisions", "--since", "1h")) == [new]
        assert ids(freshline.json("decisions", "--until", "1h", "--asset", "a")) == [old]

    def test_json_and_table(self, freshline: Freshline, rows: Rows) -> None:
        """Both tell outcome and reason; the table says it in words."""
        rows.workflow("w", ["a"])
        made = rows.decision("w", "hold", "paused", count=3)
        found = freshline.json("decisions", "--asset", "a")
        assert ids(found) == [made]
        wanted = {"id", "workflowSlug", "partitionKey", "outcome", "reason", "at", "evidence", "runId"}
        assert wanted <= found[0].keys()
        text = freshline("decisions", "--workflow", "w").stdout
        assert "it is paused without an end" in text
        assert "3x" in text

    def test_a_followed_line_has_no_empty_cells(self, freshline: Freshline, rows: Rows) -> None:
        """A table has a heading over `-`; a line has none."""
        rows.workflow("w", ["a"])
        rows.decision("w", "hold", "paused")
        (one,) = freshline.json("decisions")
        assert one["runId"] is None
        assert listing.DECISIONS.line(one).plain.endswith("ends that")
        assert freshline("decisions").stdout.rstrip().endswith("-")

    def test_following_an_asset_that_does_not_exist(self, freshline: Freshline, rows: Rows) -> None:
        """The slug of a workflow is not an asset, with and without --follow."""
        rows.workflow("w", ["a"])
        for words in (["--asset", "w"], ["--asset", "w", "--follow"]):
            assert "asset 'w' does not exist" in freshline("decisions", *words, code=1).stderr

    def test_following_a_source(self, freshline: Freshline, rows: Rows) -> None:
        """A source has no decisions: its followers are not shown those of all workflows."""
        rows.source("s")
        rows.workflow("w", ["a"], ["s"])
        assert "asset 's' is a source" in freshline("decisions", "--asset", "s", "--follow", code=2).stderr


class TestWorkers:
    """`freshline workers`."""

    def test_json_and_table(self, freshline: Freshline, rows: Rows) -> None:
        """Live and silent processes, and with --all the stopped ones."""
        rows.worker("materializer")
        rows.worker(seen=3600)
        rows.worker(stopped_at=None)
        assert {one["live"] for one in freshline.json("workers")} == {True, False}
        text = freshline("workers").stdout
        for part in ("materializer", "silent", "live", "here:7"):
            assert part in text


class TestFollowers:
    """The functions behind `--follow`."""

    def test_events_come_once_in_the_order_of_positions(self, store: Store, rows: Rows) -> None:
        """The newest first call, then what is stamped later, whatever its time."""
        rows.event("asset.produced", "a", position=1)
        unstamped = rows.event("asset.produced", "late", at=100)
        follower = EventFollower(store.reader, limit=5, type="asset", subject=None)
        assert [one["subject"] for one in follower.poll()] == ["a"]
        assert follower.poll() == []
        rows.update("UPDATE events SET position = 2 WHERE id = %s", unstamped)
        rows.event("workflow.run.queued", "w", position=3)
        assert [one["subject"] for one in follower.poll()] == ["late"]
        assert follower.poll() == []

    def test_an_event_that_comes_between_two_looks_is_given_once(
        self, store: Store, rows: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Stamped after the position was read and before the listing: the next poll has it, the first has not."""
        listed = store.reader.events

        def events(*words: Any, **filters: Any) -> list[Event]:
            rows.event("asset.produced", "between", position=1)
            return listed(*words, **filters)

        monkeypatch.setattr(store.reader, "events", events)
        follower = EventFollower(store.reader, limit=5)
        assert follower.poll() == []
        assert [one["subject"] for one in follower.poll()] == ["between"]

    def test_events_continue_after_a_position(self, store: Store, rows: Rows) -> None:
        """A program goes on where it stopped."""
        for position in (1, 2, 3):
            rows.event("asset.produced", f"a{position}", position=position)
        follower = EventFollower(store.reader, limit=5, after="1")
        assert [one["subject"] for one in follower.poll()] == ["a2", "a3"]

    def test_decisions_come_once_also_when_they_commit_late(self, store: Store, rows: Rows) -> None:
        """A decision with an earlier time than the last one shown is not lost, and none is repeated."""
        rows.workflow("w", ["a"])
        first = rows.decision("w", "skip", "up-to-date", at=20)
        follower = DecisionFollower(store.reader, limit=5)
        assert ids(follower.poll()) == [first]
        second = rows.decision("w", "hold", "paused", at=0)
        assert ids(follower.poll()) == [second]
        late = rows.decision("w", "hold", "canceled", at=10)
        assert ids(follower.poll()) == [late]
        assert follower.poll() == []

    def test_runs_come_again_when_they_move(self, store: Store, rows: Rows) -> None:
        """A run is told when it is queued and whenever its status changes, however old it is."""
        rows.workflow("w", ["a"])
        follower = RunFollower(store.reader, limit=5)
        assert follower.poll() == []
        run_id = rows.run("w", "queued", queued=9000)
        assert [(one["id"], one["status"]) for one in follower.poll()] == [(run_id, "queued")]
        assert follower.poll() == []
        rows.update("UPDATE runs SET status = 'canceled', finished_at = now() WHERE id = %s", run_id)
        assert [one["status"] for one in follower.poll()] == ["canceled"]
        assert follower.poll() == []

    def test_runs_in_one_state_only(self, store: Store, rows: Rows) -> None:
        """With a filter a run is told when it reaches that state."""
        rows.workflow("w", ["a"])
        follower = RunFollower(store.reader, limit=5, status="canceled")
        follower.poll()
        run_id = rows.run("w", "queued")
        assert follower.poll() == []
        rows.update("UPDATE runs SET status = 'canceled', finished_at = now() WHERE id = %s", run_id)
        assert ids(follower.poll()) == [run_id]

    def test_entries_never_end_by_themselves(self) -> None:
        """Polls again after each wait, until the one who waits stops it."""

        class Once:
            polls = 0

            def poll(self) -> list[dict[str, int]]:
                self.polls += 1
                return [{"n": self.polls}]

        def stop(_: float) -> None:
            if follower.polls == 3:
                raise KeyboardInterrupt

        follower = Once()
        seen: list[object] = []
        with pytest.raises(KeyboardInterrupt):
            seen.extend(entries(follower, wait=stop))
        assert follower.polls == 3

    @pytest.mark.parametrize("name", ["runs", "events", "decisions"])
    @pytest.mark.parametrize("as_json", [True, False])
    def test_follow_prints_line_by_line_until_interrupted(
        self, freshline: Freshline, rows: Rows, monkeypatch: pytest.MonkeyPatch, name: str, as_json: bool
    ) -> None:
        """One line per entry, JSON lines with --json; Ctrl-C ends it with 130."""
        rows.workflow("w", ["a"])
        rows.run("w")
        rows.event("asset.produced", "a", position=1)
        rows.decision("w", "skip", "up-to-date")

        def interrupted(follower: RunFollower) -> object:
            yield from follower.poll()
            raise KeyboardInterrupt

        monkeypatch.setattr(listings, "entries", interrupted)
        words = [name, "--follow", *(["--json"] if as_json else [])]
        lines = freshline(*words, code=130).stdout.splitlines()
        assert len(lines) == 1
        if as_json:
            assert "id" in json.loads(lines[0])


def test_the_audit_shows_what_an_apply_changed() -> None:
    """Names, and not the JSON in which they are stored; nothing of what it did not change."""
    names = [f"w{number}" for number in range(7)]
    after = {
        "added": {"count": 70, "first": names},
        "changed": {"count": 0, "first": []},
        "retired": {"count": 1, "first": ["old"]},
        "workflows": 70,
    }
    one: Any = {"at": "2026-01-05T09:00:00+00:00", "who": "ci", "what": "apply", "subject": "shop", "after": after}
    for before, workflows in ((None, "70"), ({"workflows": 1}, "1 -> 70")):
        one["before"] = before
        told = f"added: 70 (w0, w1, w2, w3, w4, …); retired: 1 (old); workflows: {workflows}"
        assert listing.change_cells(one)[-1] == told


@pytest.fixture
def several(rows: Rows) -> Rows:
    """Insert two projects of three workflows each, with an asset and runs: those of `core__2` failed."""
    rows.source("raw")
    for project in ("core", "mart"):
        rows.insert("projects", name=project, code_hash="c0", applied_at=ago(60))
        for number in range(3):
            slug = f"make-{project}-{number}"
            rows.workflow(slug, [f"{project}__{number}"], ["raw"], project=project)
            for queued in (10, 20):
                rows.run(slug, "failed" if slug == "make-core-2" else "succeeded", queued=queued + number)
                rows.decision(slug, "hold" if number else "skip", "upstream-update", at=queued + number)
    return rows


def about(found: Any) -> set[str]:
    """Return the workflows that entries are about."""
    return {one["workflowSlug"] for one in found}


@pytest.mark.usefixtures("several")
class TestPatterns:
    """Patterns and projects in `runs`, `decisions` and `events`."""

    def test_a_pattern_selects_assets_or_workflows(self, freshline: Freshline) -> None:
        """As a whole name, in every listing; a project narrows what a pattern selects."""
        core = {f"make-core-{number}" for number in range(3)}
        assert about(freshline.json("runs", "--asset", "core__*")) == core
        assert about(freshline.json("runs", "--workflow", "*-[01]")) == {
            f"make-{one}-{number}" for one in ("core", "mart") for number in (0, 1)
        }
        assert about(freshline.json("decisions", "--asset", "*__1", "--of", "mart")) == {"make-mart-1"}
        assert about(freshline.json("runs", "--of", "core")) == core
        assert freshline.json("runs", "--of", "core", "--workflow", "make-mart-0") == []
        assert freshline.json("runs", "--asset", "raw*") == [], "a source has no runs"

    def test_the_first_line_counts_all_pages(self, freshline: Freshline) -> None:
        """Not only the page that follows; the last line says how the listing continues."""
        told = freshline("runs", "--asset", "core__*", "--limit", "2")
        assert told.stdout.splitlines()[0] == "6 runs: 4 succeeded, 2 failed"
        assert len([line for line in told.stdout.splitlines() if "make-core" in line]) == 2
        assert "the newest 2 of 6; `--limit N` shows more, `--after " in told.stderr
        rest = told.stderr.split("`--after ")[1].split("`")[0]
        after = freshline("runs", "--asset", "core__*", "--after", rest)
        assert after.stdout.splitlines()[0] == "6 runs: 4 succeeded, 2 failed"
        assert (len([line for line in after.stdout.splitlines() if "make-core" in line]), after.stderr) == (4, "")
        held = freshline("decisions", "--of", "core", "--outcome", "hold").stdout.splitlines()[0]
        assert held == "4 decisions: 4 hold"
        assert freshline("runs", "--of", "mart", "--state", "failed").stdout.splitlines()[0] == "0 runs"

    def test_pages_of_a_pattern_follow_each_other(self, freshline: Freshline) -> None:
        """Every run once, whatever the size of the page."""
        seen: list[str] = []
        after: list[str] = []
        while found := freshline.json("runs", "--asset", "*__[12]", "--limit", "3", *after):
            seen += ids(found)
            after = ["--after", found[-1]["id"]]
        assert seen == ids(freshline.json("runs", "--asset", "*__[12]"))
        assert len(seen) == 8

    def test_a_listing_without_a_pattern_says_that_it_continues(self, freshline: Freshline) -> None:
        """It is not counted: that would read the whole history."""
        told = freshline("decisions", "--limit", "11")
        assert "the newest 11; `--limit N` shows more" in told.stderr
        assert "decisions:" not in told.stdout
        assert freshline("decisions", "--limit", "12").stderr == ""

    def test_a_count_has_a_limit(self, freshline: Freshline, monkeypatch: pytest.MonkeyPatch) -> None:
        """A large history is counted from its newest entries on, and the sentence says so."""
        monkeypatch.setattr("freshline.store.read.history.MOST_COUNTED", 4)
        first = freshline("runs", "--asset", "core__*").stdout.splitlines()[0]
        assert first == "more than 4 runs; of the newest: 3 succeeded, 1 failed"

    @pytest.mark.parametrize(
        ("call", "error"),
        [
            (("runs", "--asset", "croe__*"), "no asset matches 'croe__*' (did you mean 'core__2'?)"),
            (("decisions", "--workflow", "mak-core*"), "no workflow matches 'mak-core*' (did you mean 'make-core-2'?)"),
            (("runs", "--of", "cor"), "project 'cor' does not exist (did you mean 'core'?)"),
            (("events", "--asset", "core__*", "--of", "mart"), "no asset of project 'mart' matches 'core__*'"),
            (("runs", "--asset", "core__*", "--partition", "x"), "'core__*' is a pattern; a partition belongs to one"),
            (("runs", "--asset", "core__*", "--follow"), "'core__*' is a pattern"),
        ],
    )  # fmt: skip
    def test_what_matches_nothing_is_an_error(self, freshline: Freshline, call: tuple[str, ...], error: str) -> None:
        """It names what is similar, as `status` does."""
        code = 2 if "pattern;" in error or "--follow" in call else 1
        told = freshline(*call, code=code).stderr.replace("\nhint: ", "; ")
        assert error in told.replace("\n  ", " ")
