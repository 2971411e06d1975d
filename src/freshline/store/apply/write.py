"""Workflows, assets and edges as they are stored, and the writes of apply (R10)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from freshline.decide.times import expires_at, milliseconds, next_point
from freshline.definitions.fingerprint import needs_spark
from freshline.definitions.loading.project import LoadedWorkflow, Project
from freshline.definitions.schema.workflow import workflow_json
from freshline.definitions.steps import external_inputs, produced
from freshline.graph import Graph
from freshline.model.enums import EventType, ExpiryReason
from freshline.model.policy import Freshness, Policy
from freshline.store.apply.diff import ApplyPlan, Stored
from freshline.store.apply.wait_warnings import Duration, Patience
from freshline.store.db.database import Connection
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load

SQL = load("apply")
DB = load("db")
# Of each workflow, to know how long it takes: those of long ago were other jobs on other data.
MOST_RUNS = 200


def read_graph(connection: Connection) -> Graph:
    """The topology of this moment."""
    row = connection.execute(SQL["graph"]).fetchone()
    assert row is not None  # noqa: S101 - an aggregate always returns a row
    return Graph(
        epoch=row["epoch"],
        slugs=dict(zip(row["workflows"] or (), row["slugs"] or (), strict=True)),
        producers=dict(zip(row["made"] or (), row["makers"] or (), strict=True)),
        edges=zip(row["read"] or (), row["readers"] or (), strict=True),
    )


def read_stored(connection: Connection, project: str) -> Stored:
    """What a plan for this project is made against."""
    return Stored(
        workflows={row["slug"]: row for row in connection.execute(SQL["stored_workflows"])},
        assets={row["id"]: row for row in connection.execute(SQL["stored_assets"])},
        edges=[(row["asset_id"], row["slug"]) for row in connection.execute(SQL["stored_edges"])],
        pools={row["name"]: row["slots"] for row in connection.execute(SQL["stored_pools"], {"project": project})},
    )


def read_durations(connection: Connection, patience: Patience) -> list[Duration]:
    """How long the runs took of those that somebody may wait for, where that is longer than anybody's patience."""
    if not patience.awaited:
        return []
    values = {"slugs": patience.awaited, "longer_ms": patience.shortest_ms, "most": MOST_RUNS}
    return [Duration(**row) for row in connection.execute(SQL["durations"], values)]


def write(connection: Connection, project: Project, plan: ApplyPlan, stored: Stored, *, baseline: bool) -> None:
    """Store a plan. Considerations first, which keeps reconcilers off; then runs, assets, partitions (R10.2, R11.2)."""
    touched = [stored.workflows[slug]["id"] for slug in (*plan.changed, *plan.added) if slug in stored.workflows]
    retired = [stored.workflows[slug]["id"] for slug in plan.retired]
    # All rows that an absorber could note at the same time are locked here, in key order, or made.
    connection.execute(SQL["consider"], {"workflows": touched + retired})
    ending = {"workflows": touched + retired, "reason": "definition-changed", "code_hash": project.code_hash}
    connection.execute(SQL["cancel_queued"], ending)
    connection.execute(SQL["save_project"], {"name": project.name, "code_hash": project.code_hash})
    connection.execute(SQL["save_pools"], {"project": project.name, "pools": Jsonb(dict(project.pools))})
    wanted = {*plan.added, *plan.changed}
    loaded = [one for one in project.workflows if one.definition.slug in wanted]
    ids = _save_workflows(connection, project, loaded, stored)
    _save_assets(connection, project, loaded, touched + retired)
    healed = connection.execute(SQL["heal_partitions"], {"workflows": ids}).fetchall()
    connection.execute(SQL["retire_workflows"], {"workflows": retired})
    _take_baseline(connection, loaded, ids, force=baseline)
    if baseline:
        connection.execute(SQL["clear_expiry"], {"workflows": ids})
    set_clocks(connection, ids, baseline=baseline)
    connection.execute(SQL["drop_considerations"], {"workflows": retired})
    connection.execute(SQL["consider"], {"workflows": ids})
    connection.execute(SQL["wake_waiting"], {"workflows": ids + retired})
    _tell(connection, plan, healed)
    connection.execute(SQL["bump_epoch"])


def _save_workflows(
    connection: Connection, project: Project, loaded: Sequence[LoadedWorkflow], stored: Stored
) -> list[int]:
    rows = []
    for one in loaded:
        before = stored.workflows.get(one.definition.slug)
        rows.append(
            {
                "slug": one.definition.slug,
                "project": project.name,
                "version": before["version"] + 1 if before else 1,
                "automatic": one.policy.automatic,
                "policy": one.policy.as_json(),
                "fingerprint": one.fingerprint,
                "job_fingerprint": one.job_fingerprint,
                "pool": one.definition.pool,
                "max_concurrency": one.definition.max_concurrency,
                "code_hash": one.code_hash,
                "needs_spark": needs_spark(one.definition),
                "definition": workflow_json(one.definition),
                "source_file": one.place.file,
            }
        )
    saved = connection.execute(SQL["save_workflows"], {"rows": Jsonb(rows)}).fetchall()
    connection.execute(SQL["save_versions"], {"rows": Jsonb(rows)})
    return sorted(row["id"] for row in saved)


def _save_assets(
    connection: Connection, project: Project, loaded: Sequence[LoadedWorkflow], released: Sequence[int]
) -> None:
    rows: dict[str, dict[str, Any]] = {}
    edges = []
    for one in loaded:
        slug, definition = one.definition.slug, workflow_json(one.definition)
        steps = {step["id"]: step for step in definition["steps"]}
        triggers = {item.asset_id: item.triggers for item in one.policy.inputs}
        for item in external_inputs(one.definition):
            rows.setdefault(item.asset_id, {"id": item.asset_id})
            declared = item.model_dump(mode="json", by_alias=True, exclude_unset=True)
            edges.append(
                {
                    "asset_id": item.asset_id,
                    "slug": slug,
                    "triggers": triggers[item.asset_id],
                    "declaration": declared,
                }
            )
        for asset_id, (step_id, _) in produced(one.definition).items():
            declared = next(p for p in steps[step_id]["produces"] if p["assetId"] == asset_id)
            rows[asset_id] = {"id": asset_id, "slug": slug, "step_id": step_id, "declaration": declared}
    for source in project.sources:
        asset_id = source.definition.asset_id
        declared = source.definition.model_dump(mode="json", by_alias=True, exclude_unset=True)
        declared["location"] = project.source_location(source.definition)
        rows[asset_id] = {"id": asset_id, "declaration": declared, "source_project": project.name}
    connection.execute(SQL["drop_edges"], {"workflows": released})
    connection.execute(SQL["release_assets"], {"workflows": released})
    connection.execute(SQL["save_assets"], {"rows": Jsonb(list(rows.values()))})
    sources = [source.definition.asset_id for source in project.sources]
    connection.execute(SQL["forget_sources"], {"project": project.name, "sources": sources})
    connection.execute(SQL["save_edges"], {"rows": Jsonb(edges)})


def _take_baseline(connection: Connection, loaded: Sequence[LoadedWorkflow], ids: list[int], *, force: bool) -> None:
    """`--baseline now` takes today's state as fresh; `onMissing: false` does so for workflows that never ran (R8.2)."""
    if force:
        connection.execute(SQL["take_baseline"], {"workflows": ids, "force": True})
        return
    slugs = [one.definition.slug for one in loaded if one.policy.automatic and not one.policy.on_missing]
    rows = connection.execute("SELECT id FROM workflows WHERE slug = ANY (%s)", [slugs]).fetchall()
    connection.execute(SQL["take_baseline"], {"workflows": [row["id"] for row in rows], "force": False})


def set_clocks(
    connection: Connection, ids: list[int], *, baseline: bool = False, only: Collection[str] | None = None
) -> None:
    """Timers follow the freshness of now; cron and cadence timers exist from apply on (R8.1). `only`: these assets."""
    now = connection.execute(DB["now"]).fetchone()
    assert now is not None  # noqa: S101 - it is one value
    due: list[dict[str, Any]] = []
    gone: list[dict[str, Any]] = []
    for row in connection.execute(SQL["asset_clocks"], {"workflows": ids}).fetchall():
        if only is not None and row["asset_id"] not in only:
            continue
        policy = Policy.from_json(row["policy"])
        freshness = next((o.freshness for o in policy.outputs if o.asset_id == row["asset_id"]), Freshness())
        for clock in (_expiry_clock(row, freshness, now["now"], baseline=baseline), _overdue_clock(row, freshness)):
            if clock is not None:
                (due if clock["due_at"] else gone).append(clock)
    connection.execute(SQL["set_due"], {"timers": Jsonb(due)})
    connection.execute(SQL["unset_due"], {"timers": Jsonb(gone)})
    connection.execute(SQL["drop_timers"])


def _expiry_clock(
    row: Mapping[str, Any], freshness: Freshness, now: datetime, *, baseline: bool
) -> dict[str, Any] | None:
    """When it runs out next. A user's `expire` that was not carried out yet stays as it is."""
    if row["reason"] == ExpiryReason.MANUAL:
        return None
    produced_at = now if baseline and row["produced_at"] else row["produced_at"]
    fresh = produced_at is not None and row["expired_at"] is None
    expiry = expires_at(freshness, produced_at) if fresh else next_point(freshness, now)
    # Without any promise nothing is late; what a user has expired still is.
    forget = freshness == Freshness() and row["expired_reason"] != ExpiryReason.MANUAL
    return _clock(row, "expiry", *(expiry or (None, None)), forget=forget)


def _overdue_clock(row: Mapping[str, Any], freshness: Freshness) -> dict[str, Any] | None:
    if freshness.max_age_ms is None or row["produced_at"] is None:
        return _clock(row, "overdue", None, None, forget=True)
    if row["overdue_at"] is not None:
        return None  # told already, once per incident (R8.4)
    return _clock(row, "overdue", row["produced_at"] + milliseconds(freshness.max_age_ms), "max-age")


def _clock(
    row: Mapping[str, Any], kind: str, due: datetime | None, reason: str | None, *, forget: bool = False
) -> dict[str, Any]:
    key = {"asset_id": row["asset_id"], "partition_key": row["partition_key"], "kind": kind}
    return {**key, "due_at": due.isoformat() if due else None, "reason": reason, "forget": forget}


def _tell(connection: Connection, plan: ApplyPlan, healed: Sequence[Mapping[str, Any]]) -> None:
    changes = [
        *(("added", slug) for slug in plan.added),
        *(("changed", slug) for slug in plan.changed),
        *(("retired", slug) for slug in plan.retired),
    ]
    events = [
        {
            "id": new_id(),
            "type": EventType.DEFINITION_UPDATED,
            "subject": slug,
            "data": {"workflowSlug": slug, "project": plan.project, "change": change},
        }
        for change, slug in changes
    ]
    events.extend(
        {
            "id": new_id(),
            "type": EventType.BREAKER_CLOSED,
            "subject": row["slug"],
            "data": {
                "workflowSlug": row["slug"],
                "workflowId": row["workflow_id"],
                "partitionKey": row["partition_key"],
                "by": "definition",
            },
        }
        for row in healed
    )
    connection.execute(DB["append_events"], {"events": Jsonb(events)})
