"""The backend over HTTP: implements `protocol` with requests to `/api/v1`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar, cast

from freshline.api import MAX_PAGE
from freshline.cli.backend.backfills import Backfills
from freshline.cli.backend.http import Connection
from freshline.cli.backend.operations import Operations
from freshline.cli.backend.protocol import ALWAYS, Period
from freshline.cli.render.format import parse_time
from freshline.model.documents.asset import Delivery, FoundAsset, FoundWorkflow, Graph, Name, Snapshot
from freshline.model.documents.decision import Decision, Plan
from freshline.model.documents.event import Event, EventDetail
from freshline.model.documents.installation import About, AuditEntry, Page, Process, Tally
from freshline.model.documents.listing import About as Scope
from freshline.model.documents.partition import AssetPartitions, WantedPartitions
from freshline.model.documents.run import LogLine, Run, RunDetail
from freshline.model.documents.status import EVERYTHING_USED, Status, WantedStatus
from freshline.model.documents.watch import Watch
from freshline.model.documents.workflow import Definition
from freshline.settings import Settings

T = TypeVar("T")


class Reader:
    """Reads through the API, with the same results as the store's reader."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def status(self, name: str | None = None, wanted: WantedStatus = EVERYTHING_USED) -> Status:
        """Return the status of everything, or of one asset or workflow."""
        more = {"all": "true"} if wanted.everything else {}
        page = {"project": wanted.project, "after": wanted.after, "limit": wanted.limit}
        return self._one(Status, "status", name=name, state=sorted(wanted.states) or None, **page, **more)

    def find(self, name: str) -> FoundAsset | FoundWorkflow:
        """Return the asset `{assetId, workflowSlug, ...}` or the workflow `{slug}` of this name; an asset wins."""
        found = [one for one in self.status(name)["assets"] if one["assetId"] == name]
        return found[0] if found else {"slug": name}

    def why(self, name: str, limit: int = 10, *, partition: str | None = None) -> list[Decision]:
        """Return the last decisions about an asset, or about a workflow by its slug."""
        about = "workflow" if "slug" in self.find(name) else "asset"
        return self._pages(Decision, limit, None, "decisions", **{about: name}, partitionKey=partition)

    def plan(
        self,
        asset: str,
        settings: Settings,  # noqa: ARG002 - those of the API count
        *,
        partition: str | None = None,
    ) -> Plan:
        """Return what would run if the asset changed now."""
        return self._one(Plan, "assets", asset, "plan", partitionKey=partition)

    def partitions(self, asset: str, wanted: WantedPartitions | None = None, limit: int = 100) -> AssetPartitions:
        """Return a page of the states of an asset's partitions, newest first."""
        first, last, state, after, key = wanted or WantedPartitions()
        filters = {"from": first, "to": last, "state": state, "after": after, "partitionKey": key}
        return self._one(AssetPartitions, "assets", asset, "partitions", limit=limit, **filters)

    def workflow(self, slug: str) -> Definition:
        """Return the current definition of a workflow."""
        return self._one(Definition, "workflows", slug)

    def names(self, prefix: str = "", limit: int = MAX_PAGE) -> list[Name]:
        """List assets and workflows by name."""
        return self._one(Page[Name], "names", prefix=prefix, limit=limit)["items"]

    def graph(self, asset: str | None = None) -> Graph:
        """Return the producers and consumers of assets."""
        return self._one(Graph, "assets", "graph", asset=asset)

    def snapshot(self, asset: str, version: int | None = None, *, partition: str | None = None) -> Snapshot:
        """Return one snapshot of an asset, or of one partition: the given version, or the current one."""
        return self._one(Snapshot, "assets", asset, "snapshot", version=version, partitionKey=partition)

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
        """Return runs, newest first."""
        about = _about(Scope(workflow, asset, project, partition))
        filters = {"status": status, "trigger": trigger, **about, **_period(period)}
        return self._pages(Run, limit, after, "runs", **filters)

    def run_tally(self, status: str | None, trigger: str | None, about: Scope, *, period: Period = ALWAYS) -> Tally:
        """Return how many runs `runs` lists, by status."""
        filters = {"status": status, "trigger": trigger, **_about(about), **_period(period)}
        return self._one(Tally, "runs", "summary", **filters)

    def run(self, run_id: str) -> RunDetail:
        """Return one run by its id or a unique suffix of it."""
        return self._one(RunDetail, "runs", run_id)

    def find_run(self, text: str) -> str:
        """Return the full id of the run that `text` names."""
        return self.run(text)["id"]

    def moving_runs(
        self,
        since: datetime,
        tracked: Sequence[str] = (),
        workflow: str | None = None,
        *,
        partition: str | None = None,
    ) -> list[Run]:
        """Return runs that may have changed, oldest first: queued since (with overlap), active, or tracked."""
        about = {"workflow": workflow, "partitionKey": partition}
        found = self._since(Run, "runs", since, **about)
        for status in ("queued", "running"):
            found += self._pages(Run, None, None, "runs", status=status, **about)
        known: dict[str, Run] = {one["id"]: one for one in found}
        for run_id in tracked:
            if run_id not in known:
                document = self._connection.get("runs", run_id)
                del document["outputs"]  # listings do not have them
                known[run_id] = document
        return sorted(known.values(), key=lambda one: (parse_time(one["queuedAt"]), one["id"]))

    def logs(self, run_id: str, after: int = -1, *, tail: int | None = None, period: Period = ALWAYS) -> list[LogLine]:
        """Return the log lines of a run after line `after`; with `tail`, the last ones."""
        if tail is None:
            return self._pages(LogLine, None, str(after), "runs", run_id, "logs", **_period(period))
        found = self._one(Page[LogLine], "runs", run_id, "logs", after=after, tail=tail, **_period(period))
        return found["items"]

    def watches(self, limit: int = 20, after: str | None = None) -> list[Watch]:
        """Return the watches of sources."""
        return self._pages(Watch, limit, after, "watches")

    def watch(self, asset: str) -> Watch:
        """Return the watch of a source."""
        return self._one(Watch, "assets", asset, "watch")

    def deliveries(self, asset: str, limit: int = 20) -> list[Delivery]:
        """Return the deliveries of an append source, newest first."""
        return self._pages(Delivery, limit, None, "assets", asset, "deliveries")

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
        """Return events, newest first."""
        about = _about(Scope(None, asset, project, partition))
        return self._pages(Event, limit, after, "events", type=type, subject=subject, **about, **_period(period))

    def event_tally(
        self,
        type: str | None,  # noqa: A002 - the field's name
        subject: str | None,
        about: Scope,
        *,
        period: Period = ALWAYS,
    ) -> Tally:
        """Return how many events `events` lists, by type."""
        filters = {"type": type, "subject": subject, **_about(about), **_period(period)}
        return self._one(Tally, "events", "summary", **filters)

    def event(self, text: str, limit: int = 100) -> EventDetail:
        """Return one event by its id or position, with its outcomes."""
        return self._one(EventDetail, "events", text, limit=limit)

    def events_since(
        self,
        position: int,
        type: str | None = None,  # noqa: A002 - the field's name
        subject: str | None = None,
        *,
        asset: str | None = None,
        partition: str | None = None,
    ) -> list[Event]:
        """Return up to 1,000 numbered events after a position, oldest first."""
        filters = {"type": type, "subject": subject, "asset": asset, "partitionKey": partition}
        return self._one(Page[Event], "feed", position=position, **filters)["items"]

    def position(self, after: str | None = None) -> int:
        """Return the position of the event that `after` names, else of the newest one; 0 before the first."""
        found = self._one(About, "about") if after is None else self._one(EventDetail, "events", after, limit=1)
        return found["position"] or 0

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
        """Return decisions, newest first."""
        about = _about(Scope(workflow, asset, project, partition))
        return self._pages(Decision, limit, after, "decisions", **about, outcome=outcome, **_period(period))

    def decision_tally(self, outcome: str | None, about: Scope, *, period: Period = ALWAYS) -> Tally:
        """Return how many decisions `decisions` lists, by outcome."""
        return self._one(Tally, "decisions", "summary", outcome=outcome, **_about(about), **_period(period))

    def decisions_since(
        self, since: datetime, workflow: str | None = None, *, partition: str | None = None
    ) -> list[Decision]:
        """Return decisions made since then (with overlap), oldest first."""
        return self._since(Decision, "decisions", since, workflow=workflow, partitionKey=partition)[::-1]

    def workers(self, limit: int = 100, *, stopped: bool = False) -> list[Process]:
        """Return the processes that announced themselves."""
        return self._one(Page[Process], "workers", limit=limit, stopped=str(stopped).lower())["items"]

    def audit(self, limit: int = 20, after: str | None = None, subject: str | None = None) -> list[AuditEntry]:
        """Return the audit, newest first; the token needs the scope `admin`."""
        return self._pages(AuditEntry, limit, after, "audit", subject=subject)

    def now(self) -> datetime:
        """Return the time of the database's clock."""
        return parse_time(self._one(About, "about")["at"])

    def _one(self, kind: type[T], *path: str, **params: Any) -> T:  # noqa: ARG002 - for mypy
        """Return a document. The API promises that it has the fields of `kind`."""
        return cast("T", self._connection.get(*path, **params))

    def _since(self, kind: type[T], path: str, since: datetime, **params: Any) -> list[T]:
        from freshline.store.read.history import OVERLAP  # noqa: PLC0415 - help must not load the driver

        return self._pages(kind, None, None, path, since=(since - OVERLAP).isoformat(), **params)

    def _pages(
        self,
        kind: type[T],  # noqa: ARG002 - for mypy
        limit: int | None,
        after: str | None,
        *path: str,
        **params: Any,
    ) -> list[T]:
        """Return a listing, read page by page, up to `limit` entries or to its end."""
        found: list[T] = []
        while limit is None or len(found) < limit:
            most = MAX_PAGE if limit is None else min(MAX_PAGE, limit - len(found))
            part = self._one(Page[Any], *path, limit=most, after=after, **params)
            found += part["items"]
            after = part["next"]
            if after is None:
                break
        return found


def _about(about: Scope) -> dict[str, str | None]:
    workflow, asset, project, partition = about
    return {"workflow": workflow, "asset": asset, "project": project, "partitionKey": partition}


def _period(period: Period) -> dict[str, str | None]:
    since, until = (None if one is None else one.isoformat() for one in period)
    return {"since": since, "until": until}


class Client:
    """An installation behind its API."""

    def __init__(self, connection: Connection) -> None:
        self.reader = Reader(connection)
        self.operations = Operations(connection)
        self.backfills = Backfills(connection)


@contextmanager
def connected(settings: Settings, *, timeout_s: float | None = None) -> Iterator[Client]:
    """Connect to the API of the settings. `timeout_s`: how long to wait for each answer."""
    connection = Connection(settings.api_url or "", settings.api_token, timeout_s=timeout_s)
    try:
        yield Client(connection)
    finally:
        connection.close()
