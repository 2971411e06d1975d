"""Which columns a run has read of its inputs, and which sets its outputs need versions of (docs/semantics.md#R1.6).

Only assets and workflows without partitions are compared by columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from psycopg.types.json import Jsonb

from freshline.model.column_sets import ColumnSet, column_set, set_key
from freshline.model.json import Json
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load

SQL = load("runs")


def wanted_sets(connection: Connection, definition: Mapping[str, Any], most: int) -> dict[str, list[list[str]]]:
    """Return the sets of columns that the consumers of a run's outputs read, at most so many of each output."""
    outputs = [one["assetId"] for step in definition["steps"] for one in step.get("produces", ())]
    found: dict[str, list[list[str]]] = {}
    for row in connection.execute(SQL["column_sets"], {"assets": outputs, "most": most}):
        found.setdefault(row["asset_id"], []).append(row["columns"])
    return found


def read_sets(definition: Mapping[str, Any], outputs: Iterable[StagedOutput]) -> dict[str, ColumnSet]:
    """Return the columns that a run has read of each input from outside: those of all steps that read it.

    An input of which a step has read whole rows is not in the result.
    """
    steps = definition["steps"]
    own = {one["assetId"] for step in steps for one in step.get("produces", ())}
    by_step = {one.step_id: one.reads for one in outputs}
    found: dict[str, set[str]] = {}
    whole: set[str] = set()
    for step in steps:
        for asset_id in {one["assetId"] for one in step.get("consumes", ())} - own:
            columns = by_step.get(step["id"], {}).get(asset_id)
            if columns is None:
                whole.add(asset_id)
            else:
                found.setdefault(asset_id, set()).update(columns)
    return {asset_id: column_set(columns) for asset_id, columns in found.items() if asset_id not in whole}


def with_columns(connection: Connection, run: ClaimedRun, row: Row, reads: Mapping[str, ColumnSet]) -> dict[str, Json]:
    """Return the pins with the versions of the columns that the run has read, as far as their snapshots have them.

    A run of an older version of the workflow has read what that version reads: nothing is known of the current one.
    """
    pins: dict[str, Json] = row["pins"]
    names = sorted(reads.keys() & pins)
    read = [(name, pins[name]["sequence"], set_key(reads[name])) for name in names]
    if not read:
        return pins
    assets, sequences, keys = (list(one) for one in zip(*read, strict=True))
    parameters = {"assets": assets, "sequences": sequences, "keys": keys, "version": run.version}
    found = connection.execute(SQL["pinned_columns"], {**parameters, "workflow": row["workflow_id"]})
    known = {one["asset_id"]: {one["key"]: one["version"]} for one in found}
    return {name: {**pin, "columns": known[name]} if name in known else pin for name, pin in pins.items()}


def note_reads(connection: Connection, run: ClaimedRun, row: Row, reads: Mapping[str, Sequence[str]]) -> None:
    """Store what the workflow reads, for the next runs of the producers. It comes last: `apply` locks the same rows."""
    rows = [{"asset_id": asset_id, "columns": list(columns)} for asset_id, columns in reads.items()]
    parameters = {"workflow": row["workflow_id"], "version": run.version, "reads": Jsonb(rows)}
    connection.execute(SQL["note_read_columns"], parameters)
