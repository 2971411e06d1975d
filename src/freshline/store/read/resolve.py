"""Assets and workflows by name, as transactions need them; what is not there is told with what might be meant."""

from __future__ import annotations

from typing import Any

from freshline.errors import NotFoundError, UsageError
from freshline.store.db.database import Connection
from freshline.store.db.queries import load
from freshline.suggest import did_you_mean

SQL = load("operations")


def find_asset(connection: Connection, asset_id: str) -> dict[str, Any]:
    """The asset. `NotFoundError`: there is none."""
    row = connection.execute(SQL["lock_asset"], {"asset": asset_id}).fetchone()
    if row is None:
        raise NotFoundError(f"there is no asset '{asset_id}'", hint=_hint(connection, "asset_names", asset_id))
    return row


def find_workflow(connection: Connection, slug: str, query: str = "lock_workflow") -> dict[str, Any]:
    """The workflow, locked unless another query is asked for. `NotFoundError`: there is none."""
    row = connection.execute(SQL[query], {"slug": slug}).fetchone()
    if row is None:
        raise NotFoundError(f"there is no workflow '{slug}'", hint=_hint(connection, "workflow_names", slug))
    return row


def refuse_partition(partition_key: str) -> None:
    """Keys carry a partition from the start; there are none yet."""
    if partition_key:
        raise UsageError(f"partition key {partition_key!r} is refused: partitions are not built yet; leave it out")


def _hint(connection: Connection, query: str, wrong: str) -> str:
    names = [row["name"] for row in connection.execute(SQL[query])]
    other = f"known are {', '.join(names[:5])}, …" if names else "nothing is applied yet; run `freshline apply`"
    return did_you_mean(wrong, names) or other
