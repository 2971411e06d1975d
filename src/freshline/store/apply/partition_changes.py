"""What an apply changes about partitions: mappings that cannot be, keys that come and go, and the baseline.

A mapping may lead to another project, so only an apply knows both sides (docs/semantics.md#R13.9).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice

from freshline.definitions.loading.project import Project
from freshline.definitions.partition_edges import RefusedEdge, resolve
from freshline.definitions.steps import declared_partitioning, partitionings
from freshline.errors import DefinitionError, DefinitionErrors, Place
from freshline.model.enums import Reason
from freshline.model.policy import Policy
from freshline.partitions import Dimensions, Partitioning, TimePartitioning, document
from freshline.partitions.compatibility import described
from freshline.partitions.selection import EVERYTHING
from freshline.plural import counted
from freshline.reading import existing
from freshline.store.apply.diff import Stored
from freshline.store.apply.stored_graph import read_graph
from freshline.store.db.database import Connection
from freshline.store.db.queries import load
from freshline.store.evaluation.partitions import arrays, expected, known_keys

SQL = load("partitions")
DB = load("db")
MOST_COUNTED = 100_000


def refuse_edges(connection: Connection, project: Project, stored: Stored) -> None:
    """Raise one error with all mappings that cannot be, between this project and others."""
    own = _declared(project)
    others = {
        asset_id: document.from_json(row["partitioning"])
        for asset_id, row in stored.assets.items()
        if asset_id not in own and _owner(row["project"], row["source_project"]) not in {None, project.name}
    }
    known = {**others, **own}
    errors = [_own_error(project, stored, one) for one in project.partition_edges(others).refused]
    rows = connection.execute(SQL["outside_consumers"], {"assets": list(own), "project": project.name}).fetchall()
    projects = {row["slug"]: row["project"] for row in rows}
    policies = {row["slug"]: Policy.from_json(row["policy"]) for row in rows}
    places = _places(project)
    errors += [
        _outside_error(one, projects[one.edge[1]], places[one.edge[0]])
        for one in resolve(policies, known).refused
        if one.edge[0] in own
    ]
    if errors:
        raise DefinitionErrors(errors)


def _owner(producing: str | None, declaring: str | None) -> str | None:
    return producing or declaring


def _declared(project: Project) -> dict[str, Partitioning]:
    found = partitionings(one.definition for one in project.workflows)
    return found | {one.definition.asset_id: declared_partitioning(one.definition) for one in project.sources}


def _places(project: Project) -> dict[str, Place]:
    found = {output.asset_id: one.place for one in project.workflows for output in one.policy.outputs}
    return found | {one.definition.asset_id: one.place for one in project.sources}


def _own_error(project: Project, stored: Stored, one: RefusedEdge) -> DefinitionError:
    asset_id, slug = one.edge
    loaded = next(found for found in project.workflows if found.definition.slug == slug)
    row = stored.assets.get(asset_id)
    owner = _owner(row["project"], row["source_project"]) if row else None
    where = f" of project '{owner}'" if owner else ""
    text = f"workflow '{slug}' cannot read the partitions of '{asset_id}'{where}: {one.message}"
    return DefinitionError(text, place=loaded.reads.get(asset_id, loaded.place), hint=one.hint)


def _outside_error(one: RefusedEdge, project: str, place: Place) -> DefinitionError:
    asset_id, slug = one.edge
    text = f"workflow '{slug}' of project '{project}' could not read the partitions of '{asset_id}': {one.message}"
    return DefinitionError(text, place=place, hint=f"change what '{slug}' declares first, or keep the partitions")


def changes(connection: Connection, project: Project, stored: Stored) -> dict[str, str]:
    """Return the assets whose partitions the project changes, with a sentence for each."""
    now = connection.execute(DB["now"]).fetchone()
    assert now is not None  # noqa: S101 - it is one value
    sources = {one.definition.asset_id for one in project.sources}
    found = {}
    for asset_id, after in sorted(_declared(project).items()):
        row = stored.assets.get(asset_id)
        before = document.from_json(row["partitioning"]) if row else after
        if before == after:
            continue
        heads = connection.execute(SQL["head_keys"], {"asset": asset_id}).fetchall()
        keys = [one["partition_key"] for one in heads]
        built = "have to be reported" if asset_id in sources else "will be rebuilt"
        found[asset_id] = _change(before, after, keys, now["now"], built)
    return found


def _change(before: Partitioning, after: Partitioning, keys: list[str], now: datetime, built: str) -> str:
    """Return what a change of the partitions does (docs/semantics.md#R13.9)."""
    if form(before) != form(after):
        move = f"{described(before)} -> {described(after)}"
        if not keys:
            return f"{move}; it has no data yet"
        what = counted(after.count(now), "partition") if after.columns else "all of it"
        return f"{move}; the old table version stays readable, {what} {built}"
    existing_keys = islice(after.keys(EVERYTHING, now), MOST_COUNTED)
    added = sum(not before.defines(key) for key in existing_keys)
    outside = sum(not after.defines(key) for key in keys if before.defines(key))
    parts = [f"{counted(added, 'partition')} added"] if added else []
    if outside:
        parts.append(f"{counted(outside, 'partition')} outside now: readable, and not run any more")
    return "; ".join(parts) or f"{described(after)}, in another range"


def form(partitioning: Partitioning) -> object:
    """Return what makes keys comparable: the kind, and of times the grain and the zone."""
    if isinstance(partitioning, TimePartitioning):
        return partitioning.grain, partitioning.timezone
    if isinstance(partitioning, Dimensions):
        return tuple((name, form(axis)) for name, axis in partitioning.items)
    return type(partitioning)


def take_baseline(connection: Connection, ids: Iterable[int], *, force: bool) -> None:
    """Accept existing data as fresh, for every partition of these workflows that exists (docs/semantics.md#R8.2)."""
    graph = read_graph(connection)
    mapped = [one for one in ids if graph.is_mapped(one)]
    row = connection.execute(DB["now"]).fetchone()
    if not mapped or row is None:
        return
    now, known = row["now"], known_keys(connection, graph)
    units = [(one, key) for one in mapped for key in existing(graph, one, EVERYTHING, now, known)]
    reading = arrays(expected(connection, graph, units, now))
    both = {"workflows": [one for one, _ in units], "partitions": [key for _, key in units]}
    connection.execute(SQL["take_baselines"], {**both, **reading, "force": force})
    connection.execute(SQL["accept_all_heads"], {"workflows": mapped})


def counts(reasons: Iterable[tuple[str, str]]) -> Mapping[str, Mapping[str, int]]:
    """Return how many partitions have which outcome, by workflow."""
    found: dict[str, dict[str, int]] = {}
    for slug, reason in reasons:
        one = found.setdefault(slug, {})
        one[reason] = one.get(reason, 0) + 1
    return found


def sentences(found: Mapping[str, Mapping[str, int]], whole: Collection[str], most: int) -> Iterator[str]:
    """Yield for each workflow how many partitions would run, and how many would wait.

    `whole`: those without any. `most`: how many partitions of a workflow were counted at most.
    """
    for slug, reasons in sorted(found.items()):
        if slug in whole:
            [reason] = reasons
            yield f"{slug}: would run" if reason == "run" else f"{slug}: {reason}"
            continue
        runs = reasons.get("run", 0)
        rest = ", ".join(_others(reason, count) for reason, count in sorted(reasons.items()) if reason != "run")
        total = sum(reasons.values())
        newest = "the newest " if total >= most else ""  # older ones were not counted
        would = f"{runs:,} of {newest}{counted(total, 'partition')} would run"
        yield f"{slug}: {would}" + (f"; {rest}" if rest else "")


def _others(reason: str, count: int) -> str:
    return f"{count:,} would be proposed" if reason == Reason.BACKFILL_PROPOSED else f"{count:,} {reason}"
