"""The watches of a project: `apply` stores the blocks of its sources and removes the others.

A watch that changed is looked at now. It keeps its position unless its kind or the mode of its source changed. The
files that were seen stay until the source is removed, so that no delivery is repeated. If the partitions of the source
changed, it is looked at now too: keys come and go.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.types.json import Jsonb

from freshline.definitions.loading.project import Project
from freshline.definitions.schema.watch import watch_json
from freshline.definitions.schema.workflow import Source
from freshline.definitions.steps import declared_partitioning
from freshline.model.json import Json
from freshline.partitions import document
from freshline.store.apply.diff import Stored
from freshline.store.apply.partition_changes import form
from freshline.store.db.database import Connection
from freshline.store.db.queries import load

SQL = load("watches")


def lock(connection: Connection, project: Project) -> None:
    """Lock the watches of a project. It comes before the locks of assets, as in the transactions of looks."""
    connection.execute(SQL["lock"], {"project": project.name})


def save(connection: Connection, project: Project, forgotten: Sequence[str]) -> None:
    """Store the watches of the project's sources. `forgotten`: assets that are not its sources any more."""
    rows = [_row(one.definition) for one in project.sources if one.definition.watch is not None]
    watched = [row["asset_id"] for row in rows]
    connection.execute(SQL["drop"], {"project": project.name, "watched": watched})
    connection.execute(SQL["drop_files"], {"assets": list(forgotten)})
    connection.execute(SQL["save"], {"rows": Jsonb(rows)})


def redivide(connection: Connection, project: Project, stored: Stored) -> None:
    """Look now at the sources whose partitions the project changes. Keys that mean something else begin anew."""
    changed, anew = [], []
    for source in (one.definition for one in project.sources if one.definition.watch is not None):
        row = stored.assets.get(source.asset_id)
        before, after = document.from_json(row["partitioning"] if row else None), declared_partitioning(source)
        if before != after:
            changed.append(source.asset_id)
            anew += [] if form(before) == form(after) else [source.asset_id]
    if changed:
        connection.execute(SQL["redivide"], {"assets": changed, "anew": anew})


def _row(source: Source) -> Json:
    watch = source.watch
    assert watch is not None  # noqa: S101 - the caller checked it
    return {
        "asset_id": source.asset_id,
        "kind": watch.kind,
        "mode": source.mode,
        "spec": watch_json(watch),
        "every_ms": watch.every_ms,
        "timeout_ms": watch.timeout_ms,
    }
