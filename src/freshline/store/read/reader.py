"""The read-only side of the store: everything that people and programs look at, as plain JSON data.

Field names are those of the command line and the API; times are ISO 8601 in UTC. Every method is one transaction with
one view of the database, and costs a fixed number of statements, however many rows it returns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from freshline.errors import NotFoundError
from freshline.model.events import cloud_event
from freshline.model.json import Json
from freshline.store.db.database import Database
from freshline.store.db.queries import load
from freshline.store.read import declared
from freshline.store.read.event_outcomes import of_event
from freshline.store.read.lineage import Lineage
from freshline.store.read.look import Look, unknown, uuid
from freshline.store.read.status import asset_status, notes, workflow_status

if TYPE_CHECKING:
    from freshline.settings import Settings
    from freshline.simulation.from_store import Facts

MAX_LIMIT = 100_000
# Transactions that began before a follower's last look may commit after it: it looks back this far and drops repeats.
OVERLAP = timedelta(seconds=60)
# A process that did not announce itself for this long counts as gone: the lease, twice.
SILENT_MS = 30_000


Period = tuple[datetime | None, datetime | None]
ALWAYS: Period = (None, None)
NO_FILTER = dict.fromkeys(("status", "workflow", "trigger", "since", "until", "after"))


class Reader:
    """Looks at one database and never writes. Listings are newest first; `after` is the id the last page ended with."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._statements = load("read")

    def runs(
        self,
        limit: int = 20,
        after: str | None = None,
        status: str | None = None,
        workflow: str | None = None,
        *,
        asset: str | None = None,
        trigger: str | None = None,
        period: Period = ALWAYS,
    ) -> list[Json]:
        """Runs; `workflow` is a slug, `asset` means the workflow that produces it; `period` is of `queuedAt`."""
        with self._look() as look:
            cursor = look.run_id(after) if after else None
            only = look.asset(asset)["workflowId"] if asset else look.workflow_id(workflow)
            if asset and only is None:
                return []
            filters = {"status": status, "workflow": only, "trigger": trigger, **_period(period)}
            return _runs(look, limit=limit, after=cursor, **filters)

    def run(self, run_id: str) -> Json:
        """One run by its id or a unique suffix of it, with what it published."""
        with self._look() as look:
            found = look.run_id(run_id)
            return _runs(look, ids=[found], limit=1)[0] | {"outputs": look.all("run_outputs", id=found)}

    def lineage(self, run_id: str) -> Json | None:
        """`{queued_at, inputs, outputs}` of a run, as the database has them; None if it is not kept any more."""
        with self._look() as look:
            found = look.raw("lineage_run", id=run_id)
            if not found:
                return None
            outputs = look.raw("lineage_outputs", id=run_id, workflow=found[0]["workflow_id"])
            return {**found[0], "inputs": look.raw("lineage_inputs", id=run_id), "outputs": outputs}

    def find_run(self, text: str) -> str:
        """The full id of the run that `text` names: an id, or a unique suffix of at least six hex digits."""
        with self._look() as look:
            return look.run_id(text)

    def moving_runs(self, since: datetime, tracked: Sequence[str] = (), workflow: str | None = None) -> list[Json]:
        """Runs that may have moved, oldest first: active, tracked by the follower, or queued since (with overlap)."""
        with self._look() as look:
            only = look.workflow_id(workflow)
            moved = look.raw("moving_runs", since=since - OVERLAP, tracked=list(tracked), workflow=only)
            return _runs(look, ids=[row["id"] for row in moved], limit=len(moved))[::-1]

    def logs(self, run_id: str, after: int = -1, limit: int = MAX_LIMIT) -> list[Json]:
        """The log lines of a run in their order, those after line `after`."""
        with self._look() as look:
            return look.all("logs", run=look.run_id(run_id), after=after, limit=limit)

    def events(
        self,
        limit: int = 20,
        after: str | None = None,
        type: str | None = None,  # noqa: A002 - the field's name
        subject: str | None = None,
        *,
        period: Period = ALWAYS,
    ) -> list[Json]:
        """Events; `after` may be a position too; `type` is a name or its beginning (`asset`, `workflow.run`)."""
        with self._look() as look:
            cursor = look.event(after) if after else {"time": None, "id": None}
            place = {"after_time": cursor["time"], "after_id": cursor["id"]}
            found = look.raw("events", limit=limit, subject=subject, **place, **_type(type), **_period(period))
            return list(map(cloud_event, found))

    def event(self, text: str, limit: int = 100) -> Json:
        """One event by its id or position, with its fate for the first so many workflows that it concerns (R5.5)."""
        with self._look() as look:
            found = look.event(text)
            fates = of_event(look.connection, found, limit)
        return cloud_event(found) | fates

    def events_since(self, position: int, type: str | None = None, subject: str | None = None) -> list[Json]:  # noqa: A002
        """Up to 1,000 stamped events after a position, oldest first: a follower that reads on misses none."""
        with self._look() as look:
            found = look.raw("events_since", position=position, subject=subject, **_type(type))
            return list(map(cloud_event, found))

    def position(self, after: str | None = None) -> int:
        """The position of the event that `after` names, else of the newest one; 0 before the first."""
        with self._look() as look:
            found = look.event(after) if after else look.raw("last_position")[0]
            return int(found["position"] or 0)

    def decisions(
        self,
        limit: int = 20,
        after: str | None = None,
        workflow: str | None = None,
        asset: str | None = None,
        *,
        outcome: str | None = None,
        period: Period = ALWAYS,
    ) -> list[Json]:
        """Decisions; `asset`: those about the workflow that produces it, none for a source."""
        with self._look() as look:
            cursor = look.decision_id(after) if after else None
            only = look.asset(asset)["workflowId"] if asset else look.workflow_id(workflow)
            if asset and only is None:
                return []
            filters = {"workflow": only, "outcome": outcome, **_period(period)}
            return look.all("decisions", limit=limit, after=cursor, **filters)

    def decisions_since(self, since: datetime, workflow: str | None = None) -> list[Json]:
        """Decisions made since then (with overlap), oldest first: a follower drops those that it has shown."""
        with self._look() as look:
            return look.all("decisions_since", since=since - OVERLAP, workflow=look.workflow_id(workflow))

    def why(self, name: str, limit: int = 10) -> list[Json]:
        """The last decisions about an asset, or about a workflow by its slug."""
        found = self.find(name)
        if "slug" in found:
            return self.decisions(limit, workflow=found["slug"])
        return self.decisions(limit, asset=found["assetId"])

    def status(self, name: str | None = None) -> Json:
        """`{at, assets, workflows, pools, notes}`: of everything, or of one asset or workflow and its own."""
        with self._look() as look:
            names, slugs = _belonging(look, name)
            at = look.all("clock")[0]["now"]
            assets, workflows = look.raw("status_assets", assets=names), look.raw("status_workflows", slugs=slugs)
            queue, pools = look.raw("queue", grace=SILENT_MS)[0], look.all("pools")
        return {
            "at": at,
            "assets": [asset_status(row) for row in assets],
            "workflows": [workflow_status(row) for row in workflows],
            "pools": pools,
            "notes": notes(queue),
        }

    def notes(self) -> list[str]:
        """What keeps everything from moving, as in `status`."""
        with self._look() as look:
            return notes(look.raw("queue", grace=SILENT_MS)[0])

    def waiting(self) -> float | None:
        """For how many seconds the oldest change has waited to be absorbed; None: none does."""
        with self._look() as look:
            age: float | None = look.raw("waiting")[0]["age"]
            return age

    def measures(self, assets: int) -> Json:
        """Depths and ages of queues, holds by reason, processes by kind, and the ages and lags of so many assets."""
        with self._look() as look:
            one = look.all("measures")[0]
            holds, workers = look.all("measured_holds"), look.all("measured_workers", grace=SILENT_MS)
            ages, lags = look.all("measured_assets", limit=assets), look.all("measured_lags", limit=assets)
            return {**one, "holds": holds, "workers": workers, "assets": ages, "lags": lags}

    def graph(self, asset: str | None = None) -> Json:
        """`{assets, workflows, edges}`; with an asset, only what it stems from and what stems from it."""
        with self._look() as look:
            if asset is not None:
                look.asset(asset)
            lineage = Lineage(look.all("graph_assets"), look.all("edges"))
        return lineage.as_json(None if asset is None else lineage.around(asset))

    def assets(self, limit: int = 20, after: str | None = None, workflow: str | None = None) -> list[Json]:
        """Assets by id, with state and declaration; `after` is an asset's id, `workflow` a slug."""
        with self._look() as look:
            return declared.assets(look, limit=limit, after=after, workflow=look.workflow_id(workflow))

    def asset(self, asset_id: str) -> Json:
        """One asset, with state and declaration."""
        with self._look() as look:
            look.asset(asset_id)
            return declared.assets(look, assets=[asset_id])[0]

    def workflows(self, limit: int = 20, after: str | None = None) -> list[Json]:
        """Workflows by slug, as in `status`; `after` is a slug."""
        with self._look() as look:
            slugs = [row["slug"] for row in look.raw("workflow_page", limit=limit, after=after)]
            return [workflow_status(row) for row in look.raw("status_workflows", slugs=slugs)]

    def workflow(self, slug: str) -> Json:
        """A workflow's current definition, as it was declared."""
        with self._look() as look:
            look.workflow_id(slug)
            return look.all("definition", slug=slug)[0]

    def policy(self, slug: str) -> Json:
        """How a workflow's automatic runs stand: the last one, the next one and why then, and what holds it."""
        with self._look() as look:
            workflow = look.workflow_id(slug)
            return declared.policy(look, slug, workflow)

    def snapshots(self, asset: str, limit: int = 20, *, before: int | None = None) -> list[Json]:
        """The history of an asset; `before`: only versions before that one."""
        with self._look() as look:
            return _snapshots(look, look.asset(asset)["assetId"], limit=limit, before=before)

    def snapshot(self, asset: str, version: int | None = None) -> Json:
        """One snapshot of an asset: the given version, or the current one."""
        with self._look() as look:
            look.asset(asset)
            if rows := _snapshots(look, asset, version=version, head=version is None):
                return rows[0]
            newest = _snapshots(look, asset)
        if not newest:
            raise NotFoundError(f"asset {asset!r} was never produced", hint=f"`freshline why {asset}` says why")
        raise NotFoundError(f"asset {asset!r} has no version {version}; the newest is {newest[0]['version']}")

    def workers(self, limit: int = 100, *, stopped: bool = False) -> list[Json]:
        """The processes that announced themselves; `live` is false for those that fell silent."""
        with self._look() as look:
            return look.all("workers", all=stopped, limit=limit, grace=SILENT_MS)

    def tokens(self) -> list[Json]:
        """Who may use the API, newest first."""
        with self._look() as look:
            return look.all("tokens")

    def token(self, digest: bytes) -> Json | None:
        """`{id, name, scope, digest, stale}` of the token with this SHA-256, unless it is revoked or expired.

        `stale`: its last use was noted more than a minute ago.
        """
        with self._look() as look:
            return next(iter(look.all("token", digest=digest)), None)

    def audit(self, limit: int = 20, after: str | None = None, subject: str | None = None) -> list[Json]:
        """Who changed what; `subject`: only that thing."""
        with self._look() as look:
            cursor = uuid(after, "the id of a change") if after else None
            return look.all("audit", limit=limit, after=cursor, subject=subject)

    def webhooks(self, name: str | None = None) -> list[Json]:
        """Who is told about events, by name, and how that goes; never a secret."""
        with self._look() as look:
            found = look.all("webhooks", name=name)
            if name is not None and not found:
                raise unknown("webhook", name, (row["name"] for row in look.raw("webhook_names")))
            return found

    def deliveries(self, webhook: str, limit: int = 100, after: int | None = None) -> list[Json]:
        """What a webhook did not take, by position: letters that wait to be tried again, and dead ones."""
        self.webhooks(webhook)
        with self._look() as look:
            return look.all("deliveries", webhook=webhook, limit=limit, after=after)

    def find(self, name: str) -> Json:
        """The asset `{assetId, workflowSlug, ...}` or the workflow `{slug}` of this name; an asset wins."""
        with self._look() as look:
            return look.named(name)

    def now(self) -> datetime:
        """The database's clock, the only one that counts."""
        with self._look() as look:
            now: datetime = look.raw("clock")[0]["now"]
            return now

    def below(self, asset: str) -> Facts:
        """All facts about the workflows downstream of an asset and about every ancestor of those."""
        from freshline.store.apply import preview  # noqa: PLC0415 - other looks do without the definitions

        with self._look() as look:
            look.asset(asset)
            return preview.below(look.connection, asset)

    def plan(self, asset: str, settings: Settings) -> Json:
        """What would run, in which order, if the asset changed now; what would be held, and where it would stop."""
        from freshline.simulation import plan as planning  # noqa: PLC0415 - a simulation is not needed by other reads
        from freshline.simulation.from_store import restore  # noqa: PLC0415

        facts = self.below(asset)
        made = planning.plan(restore(facts, settings), asset) if facts.known else planning.Plan()
        return {"asset": asset, **made.as_json()}

    def history(self, since: datetime) -> dict[str, list[Json]]:
        """`{workflows, reports, runs}` since then: what a simulation replays."""
        from freshline.store.apply import preview  # noqa: PLC0415 - other looks do without the definitions

        with self._look() as look:
            return preview.history(look.connection, since)

    @contextmanager
    def _look(self) -> Iterator[Look]:
        with self._database.reading(unhurried=True) as connection:
            yield Look(connection, self._statements)


def _runs(look: Look, *, ids: Sequence[Any] | None = None, **filters: Any) -> list[Json]:
    rows = look.all("runs", **{**NO_FILTER, "ids": ids, **filters})
    steps: dict[str, list[Json]] = defaultdict(list)
    for step in look.all("steps", ids=[row["id"] for row in rows]):
        steps[step.pop("runId")].append(step)
    return [_run(row, steps[row["id"]]) for row in rows]


def _run(row: Json, steps: list[Json]) -> Json:
    pins: Json = row.pop("pins")
    inputs = [
        {"assetId": asset_id, "dataVersion": pin["dataVersion"], "version": pin["sequence"]}
        for asset_id, pin in sorted(pins.items())
    ]
    return {**row, "inputs": inputs, "steps": steps}


def _snapshots(look: Look, asset: str, **filters: Any) -> list[Json]:
    return look.all("snapshots", asset=asset, **{"version": None, "head": False, "before": None, "limit": 1, **filters})


def _belonging(look: Look, name: str | None) -> tuple[list[str] | None, list[str] | None]:
    if name is None:
        return None, None
    found = look.named(name)
    if "slug" in found:
        return [row["id"] for row in look.raw("assets_of", slug=found["slug"])], [found["slug"]]
    return [found["assetId"]], [found["workflowSlug"]] if found["workflowSlug"] else []


def _period(period: Period) -> Json:
    return {"since": period[0], "until": period[1]}


def _type(name: str | None) -> Json:
    return {"type": name, "prefix": None if name is None else name.rstrip("*").rstrip(".") + "."}
