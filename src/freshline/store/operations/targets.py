"""Find the asset or workflow that an operation changes, inside its transaction."""

from __future__ import annotations

from typing import TypedDict, cast

from freshline.errors import NotFoundError, UsageError
from freshline.model.json import Json
from freshline.partitions import document
from freshline.store.db.database import Connection
from freshline.store.db.queries import load
from freshline.suggest import did_you_mean

SQL = load("operations")


class TargetAsset(TypedDict):
    """An asset and its producer. `slug` and `producer_id` are None for a source; `source_project` declares it."""

    id: str
    producer_id: int | None
    declaration: Json
    source_project: str | None
    slug: str | None
    partitioning: Json | None


class TargetWorkflow(TypedDict):
    """A workflow that is not retired."""

    id: int
    slug: str
    policy: Json
    version: int


def find_asset(connection: Connection, asset_id: str) -> TargetAsset:
    """Return the asset, locked against a change of its producer. Raise NotFoundError if it does not exist."""
    row = connection.execute(SQL["lock_asset"], {"asset": asset_id}).fetchone()
    if row is None:
        raise NotFoundError(f"asset '{asset_id}' does not exist", hint=_hint(connection, "asset_names", asset_id))
    return cast("TargetAsset", row)


def find_workflow(connection: Connection, slug: str) -> TargetWorkflow:
    """Return the workflow, locked. Raise NotFoundError if it does not exist."""
    row = connection.execute(SQL["lock_workflow"], {"slug": slug}).fetchone()
    if row is None:
        raise _no_workflow(connection, slug)
    return cast("TargetWorkflow", row)


def find_workflow_id(connection: Connection, slug: str) -> int:
    """Return the id of the workflow without locking it. Raise NotFoundError if it does not exist."""
    row = connection.execute(SQL["workflow"], {"slug": slug}).fetchone()
    if row is None:
        raise _no_workflow(connection, slug)
    return int(row["id"])


def partition_of(asset: TargetAsset, partition_key: str) -> str:
    """Return the canonical key of a partition of the asset. Raise UsageError if the asset has no such partition."""
    if asset["partitioning"] is None:
        if partition_key:
            raise UsageError(f"asset '{asset['id']}' has no partitions, so it has no partition {partition_key!r}")
        return ""
    partitioning = document.from_json(asset["partitioning"])
    if not partition_key:
        raise UsageError(f"asset '{asset['id']}' has partitions: name one, such as {partitioning.example}")
    return partitioning.parse(partition_key)


def refuse_partition(partition_key: str) -> None:
    """Raise UsageError for any partition key: keys exist in the schema, partitions are not implemented."""
    if partition_key:
        raise UsageError(f"partition key {partition_key!r} is refused: partitions are not built yet; leave it out")


def _no_workflow(connection: Connection, slug: str) -> NotFoundError:
    return NotFoundError(f"workflow '{slug}' does not exist", hint=_hint(connection, "workflow_names", slug))


def _hint(connection: Connection, query: str, wrong: str) -> str:
    names = [row["name"] for row in connection.execute(SQL[query])]
    other = f"known are {', '.join(names[:5])}, …" if names else "nothing is applied yet; run `freshline apply`"
    return did_you_mean(wrong, names) or other
