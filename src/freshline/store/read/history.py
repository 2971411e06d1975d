"""Reads what happened: runs, their logs, events and decisions. A base of `Reader`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from freshline.model.documents.decision import Decision
from freshline.model.documents.event import Event, EventDetail
from freshline.model.documents.installation import Tally
from freshline.model.documents.lineage import RunLineage
from freshline.model.documents.listing import EVERYTHING, About
from freshline.model.documents.run import LogLine, Run, RunDetail
from freshline.model.events import cloud_event
from freshline.model.json import Json
from freshline.plural import counted
from freshline.store.db.queries import load
from freshline.store.read import resolve, runs, scope
from freshline.store.read.event_outcomes import of_event
from freshline.store.read.installation import InstallationReader
from freshline.store.read.session import ReadSession
from freshline.unmatched import is_pattern

MAX_LIMIT = 100_000
OVERLAP = timedelta(seconds=60)  # followers read this far back: a transaction may commit after a read that it precedes
MOST_COUNTED = 10_000
MOST_KINDS = 5

Period = tuple[datetime | None, datetime | None]
ALWAYS: Period = (None, None)


class HistoryReader(InstallationReader):
    """Reads about runs, events and decisions. Lists are newest first; `after` is the last id of the previous page."""

    def runs(
        self,
        limit: int = 20,
        after: str | None = None,
        status: str | None = None,
        workflow: str | None = None,
        *,
        asset: str | None = None,
        project: str | None = None,
        partition: str | None = None,
        trigger: str | None = None,
        period: Period = ALWAYS,
    ) -> list[Run]:
        """List runs. See `About` for `workflow`, `asset`, `project` and `partition`; `period` limits `queuedAt`."""
        with self._session() as session:
            cursor = resolve.run_id(session, after) if after else None
            about = _workflows(session, About(workflow, asset, project, partition))
            filters = {**about, "status": status, "trigger": trigger, **_period(period)}
            return runs.list_runs(session, limit=limit, after=cursor, **filters)

    def run_tally(
        self,
        status: str | None = None,
        trigger: str | None = None,
        about: About = EVERYTHING,
        *,
        period: Period = ALWAYS,
    ) -> Tally:
        """Count the runs that `runs` lists on all of its pages, by status."""
        with self._session() as session:
            filters = {"status": status, "trigger": trigger, **_workflows(session, about), **_period(period)}
            return _tally(session, "runs", "run", filters)

    def run(self, run_id: str) -> RunDetail:
        """Return a run, by its id or a unique suffix, with its published outputs."""
        with self._session() as session:
            return runs.find_run(session, resolve.run_id(session, run_id))

    def lineage(self, run_id: str) -> RunLineage | None:
        """Return `{queued_at, inputs, outputs}` of a run as database values; None if the run was pruned."""
        with self._session() as session:
            return runs.lineage(session, run_id)

    def find_run(self, text: str) -> str:
        """Return the full id of a run from its id or a unique suffix of at least six hex digits."""
        with self._session() as session:
            return resolve.run_id(session, text)

    def moving_runs(
        self,
        since: datetime,
        tracked: Sequence[str] = (),
        workflow: str | None = None,
        *,
        partition: str | None = None,
    ) -> list[Run]:
        """List runs that may have changed, oldest first: active, tracked, or queued since (with overlap)."""
        with self._session() as session:
            only = resolve.workflow_id(session, workflow)
            key = resolve.partition_key(session, partition, None, workflow)
            where = {"workflow": only, "partition": key}
            moved = session.rows("moving_runs", since=since - OVERLAP, tracked=list(tracked), **where)
            return runs.list_runs(session, ids=[row["id"] for row in moved], limit=len(moved))[::-1]

    def logs(
        self,
        run_id: str,
        after: int = -1,
        limit: int = MAX_LIMIT,
        *,
        tail: int | None = None,
        period: Period = ALWAYS,
    ) -> list[LogLine]:
        """List the log lines of a run after line `after`, in order; with `tail`, the last ones."""
        with self._session() as session:
            chosen = {"run": resolve.run_id(session, run_id), "after": after, **_period(period)}
            if tail is None:
                return session.documents(LogLine, "logs", **chosen, limit=limit)
            return session.documents(LogLine, "last_logs", **chosen, limit=tail)[::-1]

    def events(
        self,
        limit: int = 20,
        after: str | None = None,
        type: str | None = None,  # noqa: A002 - the field's name
        subject: str | None = None,
        *,
        asset: str | None = None,
        project: str | None = None,
        partition: str | None = None,
        period: Period = ALWAYS,
    ) -> list[Event]:
        """List events. `after` may also be a position; `type` is a name or a prefix (`asset`, `workflow.run`).

        `asset`: events about the asset, or about the workflow that produces it. It and `subject` may be patterns.
        """
        with self._session() as session:
            cursor = resolve.event(session, after) if after else {"time": None, "id": None}
            place = {"after_time": cursor["time"], "after_id": cursor["id"]}
            about = _about(session, subject, asset, partition, project)
            found = session.rows("events", limit=limit, **about, **place, **_type(type), **_period(period))
            return list(map(cloud_event, found))

    def event_tally(
        self,
        type: str | None = None,  # noqa: A002 - the field's name
        subject: str | None = None,
        about: About = EVERYTHING,
        *,
        period: Period = ALWAYS,
    ) -> Tally:
        """Count the events that `events` lists on all of its pages, by type."""
        with self._session() as session:
            names = _about(session, subject, about.asset, about.partition, about.project)
            return _tally(session, "events", "event", {**names, **_type(type), **_period(period)})

    def event(self, text: str, limit: int = 100) -> EventDetail:
        """Return an event by its id or position, with its outcome for the first `limit` affected workflows."""
        with self._session() as session:
            found = resolve.event(session, text)
            outcomes = of_event(session.connection, found, limit, self._partitions.at(session).readers)
        return {**cloud_event(found), **outcomes}

    def events_since(
        self,
        position: int,
        type: str | None = None,  # noqa: A002 - the field's name
        subject: str | None = None,
        *,
        asset: str | None = None,
        partition: str | None = None,
    ) -> list[Event]:
        """List up to 1,000 numbered events after a position, oldest first. A follower that continues misses none."""
        with self._session() as session:
            about = _about(session, subject, asset, partition)
            found = session.rows("events_since", position=position, **about, **_type(type))
            return list(map(cloud_event, found))

    def position(self, after: str | None = None) -> int:
        """Return the position of the event `after`, or of the newest one; 0 if there is none."""
        with self._session() as session:
            found = resolve.event(session, after) if after else session.rows("last_position")[0]
            return int(found["position"] or 0)

    def decisions(
        self,
        limit: int = 20,
        after: str | None = None,
        workflow: str | None = None,
        asset: str | None = None,
        *,
        project: str | None = None,
        partition: str | None = None,
        outcome: str | None = None,
        period: Period = ALWAYS,
    ) -> list[Decision]:
        """List decisions. See `About` for the filters; there are none about a source."""
        with self._session() as session:
            cursor = resolve.decision_id(session, after) if after else None
            about = _workflows(session, About(workflow, asset, project, partition))
            filters = {**about, "outcome": outcome, **_period(period)}
            return session.documents(Decision, "decisions", limit=limit, after=cursor, **filters)

    def decision_tally(
        self, outcome: str | None = None, about: About = EVERYTHING, *, period: Period = ALWAYS
    ) -> Tally:
        """Count the decisions that `decisions` lists on all of its pages, by outcome."""
        with self._session() as session:
            filters = {**_workflows(session, about), "outcome": outcome, **_period(period)}
            return _tally(session, "decisions", "decision", filters)

    def decisions_since(
        self, since: datetime, workflow: str | None = None, *, partition: str | None = None
    ) -> list[Decision]:
        """List decisions made since then (with overlap), oldest first. A follower drops duplicates."""
        with self._session() as session:
            only = resolve.workflow_id(session, workflow)
            key = resolve.partition_key(session, partition, None, workflow)
            where = {"workflow": only, "partition": key}
            return session.documents(Decision, "decisions_since", since=since - OVERLAP, **where)


def _workflows(session: ReadSession, about: About) -> Json:
    """Return which workflows entries are about, and which partition of them."""
    return {"partition": scope.partition(session, about), "workflows": scope.workflows(session, about)}


def _about(
    session: ReadSession, subject: str | None, asset: str | None, partition: str | None, project: str | None = None
) -> Json:
    """Return which events to read: about which names, and about which partition of them."""
    names = scope.subjects(session, subject, asset, project)
    if partition is not None and (pattern := asset or subject) is not None and is_pattern(pattern):
        key = scope.partition(session, About(asset=pattern, partition=partition))
    elif partition is not None and asset is None and subject is not None:
        found = resolve.asset_or_workflow(session, subject)
        asset_id, slug = (None, found["slug"]) if "slug" in found else (found["assetId"], None)
        key = resolve.partition_key(session, partition, asset_id, slug)
    else:
        key = resolve.partition_key(session, partition, asset, None)
    return {"subjects": names, "partition": key}


def _period(period: Period) -> Json:
    return {"since": period[0], "until": period[1]}


def _type(name: str | None) -> Json:
    return {"type": name, "prefix": None if name is None else name.rstrip("*").rstrip(".") + "."}


def _tally(session: ReadSession, statement: str, noun: str, filters: Json) -> Tally:
    """Count entries up to `MOST_COUNTED`, the newest first."""
    tallies = ReadSession(session.connection, load("tallies"))
    counts = {row["name"]: row["number"] for row in tallies.rows(statement, **filters, most=MOST_COUNTED + 1)}
    total, complete = sum(counts.values()), True
    if total > MOST_COUNTED:
        counts = {row["name"]: row["number"] for row in tallies.rows(statement, **filters, most=MOST_COUNTED)}
        total, complete = MOST_COUNTED, False
    return {"sentence": _sentence(total, counts, noun, complete=complete), "total": total, "complete": complete,
            "counts": counts}  # fmt: skip


def _sentence(total: int, counts: Mapping[str, int], noun: str, *, complete: bool) -> str:
    """Return how many entries there are, and how many of each of the most frequent kinds."""
    named = [f"{number:,} {name}" for name, number in counts.items()]
    more = [f"{len(named) - MOST_KINDS} other kinds"] if len(named) > MOST_KINDS else []
    kinds = f": {', '.join([*named[:MOST_KINDS], *more])}" if named else ""
    return f"{counted(total, noun)}{kinds}" if complete else f"more than {total:,} {noun}s; of the newest{kinds}"
