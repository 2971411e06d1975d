"""Find the asset or workflow that an operation changes, inside its transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from shlex import quote
from typing import TypedDict, cast

from freshline.decide.times import milliseconds
from freshline.errors import NotFoundError, PartitionKeyError, UsageError
from freshline.model.json import Json
from freshline.model.policy import Policy
from freshline.partitions import Partitioning, document
from freshline.partitions.keys import shown
from freshline.reading import require_kept
from freshline.store import seen_keys
from freshline.store.db.database import Connection
from freshline.store.db.queries import load
from freshline.suggest import MOST_SHOWN, did_you_mean

SQL = load("operations")
DB = load("db")
PARTITIONS = load("partitions")


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


def find_asset(connection: Connection, asset_id: str, *, lock: bool = True) -> TargetAsset:
    """Return the asset, locked against a change of its producer. Raise NotFoundError if it does not exist."""
    row = connection.execute(SQL["lock_asset" if lock else "read_asset"], {"asset": asset_id}).fetchone()
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


def reported_partition(connection: Connection, asset: TargetAsset, partition_key: str) -> str:
    """Return the canonical key of a partition that is reported, and record it if it is a new dynamic one.

    The running window may be reported: it counts when it has ended. One that has not begun cannot have data.
    """
    name, partitioning, now = f"asset '{asset['id']}'", document.from_json(asset["partitioning"]), _now(connection)
    _require_fit(name, partitioning, partition_key, now, lambda: seen_keys.read(connection, asset["id"], partitioning))
    if not partitioning.columns:
        return ""
    with named(name):
        key = partitioning.parse(partition_key)
        partitioning.require_begun(key, now)
        seen_keys.report(connection, asset["id"], partitioning, key)
    return key


def existing_partition(
    connection: Connection, name: str, asset_id: str, partitioning: Partitioning, partition_key: str
) -> str:
    """Return the canonical key of an existing partition. `name`: what has it, in errors."""
    now, known = _now(connection), seen_keys.read(connection, asset_id, partitioning)
    _require_fit(name, partitioning, partition_key, now, lambda: known)
    if not partitioning.columns:
        return ""
    with named(name):
        key = partitioning.require_exists(partition_key, now, known)
        row = connection.execute(PARTITIONS["retention"], {"asset": asset_id}).fetchone()
        return require_kept(partitioning, key, milliseconds(row["retain_ms"]) if row else None, now)


def workflow_partition(connection: Connection, workflow: TargetWorkflow, partition_key: str) -> str:
    """Return the canonical key of an existing partition of a workflow."""
    policy = Policy.from_json(workflow["policy"])
    partitioning = document.from_json(policy.partitioning)
    asset_id = min((output.asset_id for output in policy.outputs), default="")
    return existing_partition(connection, f"workflow '{workflow['slug']}'", asset_id, partitioning, partition_key)


def _require_fit(
    name: str, partitioning: Partitioning, partition_key: str, now: datetime, known: Callable[[], Collection[str]]
) -> None:
    """Raise UsageError for a key of something without partitions, and for no key of something with partitions."""
    if not partitioning.columns and partition_key:
        raise UsageError(
            f"{name} has no partitions, so it has no partition {shown(partition_key)}", hint="leave --partition out"
        )
    if partitioning.columns and not partition_key:
        newest = partitioning.newest_key(now, known())
        allowed = f"the newest is {newest}" if newest else f"none exists yet; a key looks like {partitioning.example}"
        raise UsageError(
            f"{name} has partitions, and none is named; {allowed}",
            hint=f"name one: --partition {quote(newest or partitioning.example)}",
        )


@contextmanager
def named(name: str) -> Iterator[None]:
    """Say in errors about a partition key whose partition it is."""
    try:
        yield
    except PartitionKeyError as error:
        raise PartitionKeyError(f"{name}: {error.message}", hint=error.hint) from None


def _now(connection: Connection) -> datetime:
    row = connection.execute(DB["now"]).fetchone()
    assert row is not None  # noqa: S101 - it is one value
    now: datetime = row["now"]
    return now


def _no_workflow(connection: Connection, slug: str) -> NotFoundError:
    return NotFoundError(f"workflow '{slug}' does not exist", hint=_hint(connection, "workflow_names", slug))


def _hint(connection: Connection, query: str, wrong: str) -> str:
    names = [row["name"] for row in connection.execute(SQL[query])]
    more = ", …" if len(names) > MOST_SHOWN else ""
    known = f"known are {', '.join(names[:MOST_SHOWN])}{more}"
    return did_you_mean(wrong, names) or (known if names else "nothing is applied yet; run `freshline apply`")
