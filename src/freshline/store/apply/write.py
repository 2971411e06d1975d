"""The writes of apply: workflows, versions, assets, edges, timers and events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from psycopg.types.json import Jsonb

from freshline.definitions.fingerprint import needs_spark
from freshline.definitions.loading.project import LoadedWorkflow, Project
from freshline.definitions.schema.workflow import Source, workflow_json
from freshline.definitions.steps import external_inputs, own_inputs, produced
from freshline.model import allowed_paths
from freshline.model.enums import EventType
from freshline.model.json import Json
from freshline.store import partition_timers, seen_keys
from freshline.store.alerts import rules
from freshline.store.apply import code_changes, partition_changes, watches
from freshline.store.apply.diff import ApplyPlan, Stored, job_changes, reshaped
from freshline.store.apply.stored_graph import read_graph
from freshline.store.apply.timers import DueTimer, declared_freshness, set_timers
from freshline.store.db.database import Connection, Row
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.evaluation import notes
from freshline.store.operations import report
from freshline.store.runs.events import EventRow, append_events, breaker_event

SQL = load("apply")


def write(
    connection: Connection, project: Project, plan: ApplyPlan, stored: Stored, *, baseline: bool
) -> list[DueTimer]:
    """Store a plan (docs/semantics.md#R10.2), with tables in the order of docs/semantics.md#R11.2.

    Considerations come first: their row locks keep reconcilers away. Return the expiries whose freshness changed.
    """
    touched = [stored.workflows[slug]["id"] for slug in (*plan.changed, *plan.added) if slug in stored.workflows]
    retired = [stored.workflows[slug]["id"] for slug in plan.retired]
    same = Jsonb([asdict(one) for one in plan.same_jobs])
    renamed = [one.workflow_id for one in plan.same_jobs]
    connection.execute(SQL["lock_considerations"], {"workflows": touched + retired + renamed})
    # Lock or create, in key order, all rows that the inbox consumer could write at the same time.
    connection.execute(SQL["consider"], {"workflows": touched + retired})
    watches.lock(connection, project)
    ending = {"workflows": touched + retired, "retired": retired, "code_hash": project.code_hash}
    connection.execute(SQL["cancel_queued"], {**ending, "reason": "definition-changed"})
    code = {"code_hash": project.code_hash, "code_files": Jsonb(dict(project.code_files))}
    connection.execute(SQL["save_project"], {"name": project.name, **code})
    connection.execute(SQL["save_pools"], {"project": project.name, "pools": Jsonb(dict(project.pools))})
    if plan.alerts:
        rules.save(connection, project.name, project.alerts)
    freshness = declared_freshness(connection, touched + retired)
    wanted = {*plan.added, *plan.changed}
    loaded = [one for one in project.workflows if one.definition.slug in wanted]
    connection.execute(SQL["rename_jobs"], {"rows": same})
    ids = _save_workflows(connection, project, loaded, stored, plan)
    _save_assets(connection, project, loaded, touched + retired)
    watches.redivide(connection, project, stored)
    # Before the baseline: data that exists at the first apply is the state to begin with, and not a change of it.
    _report_existing(connection, plan.reported)
    connection.execute(SQL["rename_succeeded_jobs"], {"rows": same})
    healed = connection.execute(SQL["heal_partitions"], {"workflows": ids}).fetchall()
    connection.execute(SQL["retire_workflows"], {"workflows": retired})
    connection.execute(SQL["mark_reshaped"], {"slugs": reshaped(loaded, stored)})
    connection.execute(SQL["distrust_gained"], {"assets": _gained(loaded, stored)})
    _take_baseline(connection, loaded, ids, stored, force=baseline)
    if baseline:
        connection.execute(SQL["clear_expiry"], {"workflows": ids})
        code_changes.accept(connection, project)
    seen_keys.seed(connection, lambda: read_graph(connection))
    partition_timers.set_next_keys(connection)
    edited = set_timers(connection, ids, baseline=baseline, before=freshness)
    connection.execute(SQL["drop_considerations"], {"workflows": retired})
    connection.execute(SQL["consider"], {"workflows": ids})
    notes.count(connection, ids)
    connection.execute(SQL["wake_waiting"], {"workflows": ids + retired})
    _append_events(connection, plan, healed)
    _touch_readers(connection, plan)
    connection.execute(SQL["bump_epoch"])
    return edited


def _save_workflows(
    connection: Connection, project: Project, loaded: Sequence[LoadedWorkflow], stored: Stored, plan: ApplyPlan
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
                "changes": job_changes(one, plan.changes.get(one.definition.slug, ())),
            }
        )
    saved = connection.execute(SQL["save_workflows"], {"rows": Jsonb(rows)}).fetchall()
    connection.execute(SQL["save_versions"], {"rows": Jsonb(rows)})
    return sorted(row["id"] for row in saved)


def _save_assets(
    connection: Connection, project: Project, loaded: Sequence[LoadedWorkflow], released: Sequence[int]
) -> None:
    rows: dict[str, Json] = {}
    edges: list[Json] = []
    for one in loaded:
        for edge in _edges(one):
            edges.append(edge)
            rows.setdefault(edge["asset_id"], {"id": edge["asset_id"]})
        rows |= _outputs(one)
    rows |= {source.definition.asset_id: _source(project, source.definition) for source in project.sources}
    connection.execute(SQL["drop_edges"], {"workflows": released})
    connection.execute(SQL["release_assets"], {"workflows": released})
    connection.execute(SQL["save_assets"], {"rows": Jsonb(list(rows.values()))})
    sources = [source.definition.asset_id for source in project.sources]
    forgotten = connection.execute(SQL["forget_sources"], {"project": project.name, "sources": sources}).fetchall()
    watches.save(connection, project, [row["id"] for row in forgotten])
    connection.execute(SQL["save_edges"], {"rows": Jsonb(edges)})
    connection.execute(SQL["mark_mapped"])
    connection.execute(SQL["mark_unused"])


def _edges(loaded: LoadedWorkflow) -> Iterator[Json]:
    """Yield the assets that a workflow consumes, with their declarations."""
    policies = {item.asset_id: item for item in (*loaded.policy.inputs, *loaded.policy.predecessors)}
    for item in (*external_inputs(loaded.definition), *own_inputs(loaded.definition)):
        policy = policies.get(item.asset_id)
        if policy is None:
            continue  # its own output as it was: no edge (docs/semantics.md#R1.3)
        yield {
            "asset_id": item.asset_id,
            "slug": loaded.definition.slug,
            "triggers": policy.triggers,
            "declaration": item.model_dump(mode="json", by_alias=True, exclude_unset=True),
            "partitions": asdict(policy.partitions) if policy.partitions else None,
        }


def _outputs(loaded: LoadedWorkflow) -> dict[str, Json]:
    """Return the rows of the assets that a workflow produces."""
    slug, steps = loaded.definition.slug, workflow_json(loaded.definition)["steps"]
    declared = {(step["id"], one["assetId"]): one for step in steps for one in step.get("produces", ())}
    rows = {}
    for asset_id, (step_id, _) in produced(loaded.definition).items():
        declaration = declared[step_id, asset_id]
        rows[asset_id] = {
            "id": asset_id,
            "slug": slug,
            "step_id": step_id,
            "declaration": declaration,
            "partitioning": loaded.policy.partitioning,
        }
    return rows


def _source(project: Project, source: Source) -> Json:
    declared = source.model_dump(mode="json", by_alias=True, exclude_unset=True)
    declared["location"] = project.source_location(source)
    declared[allowed_paths.KEY] = project.allowed_paths(source).as_json()
    partitioning = source.partitioning.compiled().as_json() if source.partitioning else None
    return {
        "id": source.asset_id,
        "declaration": declared,
        "source_project": project.name,
        "partitioning": partitioning,
    }


def _report_existing(connection: Connection, sources: Sequence[str]) -> None:
    """Report new sources whose data exists (docs/semantics.md#R3.5)."""
    for asset_id in sources:
        report.record(connection, report.first_report(asset_id), again=False)


def _gained(loaded: Sequence[LoadedWorkflow], stored: Stored) -> list[str]:
    """Return the existing assets that a workflow produces from now on, and did not produce before."""
    return [
        asset_id
        for one in loaded
        for asset_id in produced(one.definition)
        if asset_id in stored.assets and stored.assets[asset_id]["producer"] != one.definition.slug
    ]


def _take_baseline(
    connection: Connection, loaded: Sequence[LoadedWorkflow], ids: list[int], stored: Stored, *, force: bool
) -> None:
    """Accept the current state as fresh (docs/semantics.md#R8.2).

    `--baseline now` does so for all workflows of the plan, `onMissing: false` for new ones. A workflow that comes back
    accepts nothing: it may have missed an update.
    """
    if not force:
        slugs = [one.definition.slug for one in loaded if one.policy.automatic and not one.policy.on_missing]
        back = {slug for slug in slugs if slug in stored.workflows and stored.workflows[slug]["retired"]}
        rows = connection.execute(SQL["never_ran"], {"slugs": sorted({*slugs} - back)}).fetchall()
        ids = [row["id"] for row in rows]
    connection.execute(SQL["take_baseline"], {"workflows": ids, "force": force})
    connection.execute(SQL["accept_heads"], {"workflows": ids})
    partition_changes.take_baseline(connection, ids, force=force)


def _touch_readers(connection: Connection, plan: ApplyPlan) -> None:
    """Evaluate what reads assets whose partitions changed: it reads others now, although it did not change itself."""
    rows = connection.execute(SQL["readers"], {"assets": list(plan.partitions)}).fetchall() if plan.partitions else ()
    touched: list[EventRow] = [
        {
            "id": new_id(),
            "type": None,
            "subject": row["slug"],
            "data": {},
            "kind": "touched",
            "workflow_id": row["id"],
            "partition_key": "",
        }
        for row in rows
    ]
    if touched:
        append_events(connection, touched)


def _append_events(connection: Connection, plan: ApplyPlan, healed: Sequence[Row]) -> None:
    changes = {"added": plan.added, "changed": plan.changed, "retired": plan.retired}
    updated: list[EventRow] = [
        {
            "id": new_id(),
            "type": EventType.DEFINITION_UPDATED,
            "subject": slug,
            "data": {"workflowSlug": slug, "project": plan.project, "change": change},
        }
        for change, slugs in changes.items()
        for slug in slugs
    ]
    closed = [breaker_event(row, EventType.BREAKER_CLOSED) for row in healed]
    for event in closed:
        event["data"]["by"] = "definition"
    append_events(connection, [*updated, *closed])
