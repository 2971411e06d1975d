"""Claims the most urgent queued run, and reads what its worker needs: inputs, own heads, finished steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from freshline.model.allowed_paths import AllowedPaths
from freshline.model.deliveries import DeliveryRange, position_of
from freshline.model.json import Json
from freshline.model.run import ClaimedRun, FinishedStep, PinnedInput, Position, StagedOutput
from freshline.model.state import reference
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.runs import batches, rebuild
from freshline.store.runs.column_sets import wanted_sets
from freshline.store.runs.publish import pinned

SQL = load("runs")
CANDIDATES = 32  # per pool: more workers than that seldom claim in the same millisecond


@dataclass(frozen=True, slots=True)
class Claimant:
    """A worker that asks for a run: its project, its code, and whether it can run Spark now."""

    worker_id: str
    project: str
    code_hash: str
    spark: bool


def claim_run(connection: Connection, who: Claimant, lease_ms: int, column_sets: int) -> ClaimedRun | None:
    """Claim the most urgent run that the worker may execute, with a lease. Return None if there is none.

    `column_sets`: of how many sets of columns an output gets versions.
    """
    parameters = {
        "worker": who.worker_id,
        "project": who.project,
        "code_hash": who.code_hash,
        "spark": who.spark,
        "lease_ms": lease_ms,
        "first": CANDIDATES,
    }
    row = connection.execute(SQL["claim_run"], parameters).fetchone()
    if row is None:
        return None
    claimed = _claimed(connection, row, batches.join(connection, row), lease_ms)
    if row["partition_key"] or not column_sets:
        return claimed
    return replace(claimed, column_sets=wanted_sets(connection, row["definition"], column_sets))


def _claimed(connection: Connection, row: Row, members: Sequence[Row], lease_ms: int) -> ClaimedRun:
    keys = sorted((row["partition_key"], *(one["partition_key"] for one in members)))
    pins = row["pins"]
    for one in members:
        pins = {**pins, **one["pins"]}
    return ClaimedRun(
        id=str(row["id"]),
        workflow_id=row["workflow_id"],
        slug=row["slug"],
        partition_key=row["partition_key"],
        version=row["version"],
        attempt=row["attempt"],
        definition=row["definition"],
        parameters=row["parameters"],
        trigger=row["trigger"],
        **_inputs(connection, row, pins, keys),
        # What a run staged alone is not what its batch computes.
        finished_steps={} if members else _finished_steps(connection, row),
        code_hash=row["code_hash"],
        lease_ms=lease_ms,
        sessions=_sessions(connection, row),
        batch=tuple(keys) if members else (),
        rebuilt=None if members else rebuild.rebuilt(connection, row),
    )


class _Inputs(TypedDict):
    inputs: dict[str, PinnedInput]
    positions: dict[str, dict[str, Position]]
    partitioned: dict[str, PinnedInput | None]


def _inputs(connection: Connection, row: Row, pins: Mapping[str, Json], keys: Sequence[str]) -> _Inputs:
    """Return the pinned inputs, and the heads of the run's own outputs for steps that read or extend them.

    The definition of the run says what its outputs are. An apply may have changed since what the workflow owns.
    `keys`: the partitions that it computes. In a batch each has its own heads, by reference.
    """
    outputs = [one["assetId"] for step in row["definition"]["steps"] for one in step.get("produces", ())]
    owner = {"workflow": row["workflow_id"], "partitions": list(keys), "outputs": outputs}
    own = connection.execute(SQL["own_heads"], owner).fetchall()
    found = connection.execute(SQL["pinned_inputs"], pinned(pins)).fetchall()
    inputs = {reference(one["asset_id"], one["partition_key"]): pinned_input(one) for one in found}
    alone = len(keys) == 1
    heads = {one["asset_id"] if alone else reference(one["asset_id"], one["partition_key"]): one for one in own}
    return {
        "inputs": {name: pinned_input(one) for name, one in heads.items()} | inputs,
        "positions": {
            name: {asset_id: _position(at) for asset_id, at in (one["positions"] or {}).items()}
            for name, one in heads.items()
        },
        "partitioned": _partitioned(connection, row, inputs),
    }


def _partitioned(connection: Connection, row: Row, inputs: Mapping[str, PinnedInput]) -> dict[str, PinnedInput | None]:
    """Return the consumed assets with partitions. Of those that the run does not read, the newest has the columns."""
    consumed = {one["assetId"] for step in row["definition"]["steps"] for one in step.get("consumes", ())}
    asked = consumed - {name for name, one in inputs.items() if not one.partition_key}
    if not asked:
        return {}
    read = {one.asset_id for one in inputs.values() if one.partition_key}
    found = connection.execute(SQL["partitioned_inputs"], {"assets": list(asked), "read": list(read)}).fetchall()
    return {one["id"]: pinned_input(one) if one["asset_id"] else None for one in found}


def pinned_input(row: Row) -> PinnedInput:
    """Return a snapshot to read, with all directories of its table or the range of deliveries of its source."""
    parts = row["parts"] or [[row["table_version"], path] for path in (row["location"] or {}).get("paths", ())]
    pinned = PinnedInput(
        row["asset_id"],
        row["sequence"],
        row["data_version"],
        row["location"],
        row["payload"],
        row["table_version"],
        row["schema"],
        base_version=row["base_version"],
        parts=[(version, path) for version, path in parts],
        rows=row["rows"],
        bytes=row["bytes"],
        allowed=_allowed(row["path_declaration"]),
        partition_key=row["partition_key"],
        change=row["change"],
    )
    if row["delivery"] is None:
        return pinned
    # The number of a delivery is the version that added it.
    known = DeliveryRange(row["delivery"], row["skipped"])
    return replace(pinned, table_version=known.last, base_version=0, deliveries=known)


def _position(data: Json) -> Position:
    """Return how far an output has read an input. The position in an append source is part of its data version."""
    number = position_of(data["data_version"])
    return Position(**data) if number is None else Position(data["data_version"], number, 0)


def _allowed(declaration: Json | None) -> Json | None:
    """Return what reports may name, if one named this location. Nobody allowed it if the source is not declared now."""
    if declaration is None:
        return None
    return (AllowedPaths.of(declaration, root=None) if declaration else AllowedPaths(None, ())).as_json()


def _finished_steps(connection: Connection, row: Row) -> dict[str, FinishedStep]:
    if row["attempt"] == 1:
        return {}
    found = connection.execute(SQL["finished_steps"], {"run": row["id"]}).fetchall()
    return {
        one["step_id"]: FinishedStep(one["attempt"], tuple(StagedOutput(**output) for output in one["outputs"]))
        for one in found
    }


def _sessions(connection: Connection, row: Row) -> tuple[str, ...]:
    if row["attempt"] == 1:
        return ()
    found = connection.execute(SQL["open_sessions"], {"run": row["id"]}).fetchall()
    return tuple(one["session"] for one in found)
