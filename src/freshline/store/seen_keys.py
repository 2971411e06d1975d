"""The keys of assets with dynamic partitions: they exist once they were seen (docs/semantics.md#R13.2).

A key appears when it is reported, or when an input that is mapped `same` gets it. Whoever sees it records it in its
transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from freshline.errors import PartitionKeyError
from freshline.graph import Graph
from freshline.partitions import DynamicKeys, Partitioning, document
from freshline.partitions import keys as texts
from freshline.partitions.keys import shown
from freshline.partitions.mapping import axes_of
from freshline.plural import counted
from freshline.store.db.database import Connection
from freshline.store.db.queries import load

SQL = load("partitions")
Seen = tuple[str, str]  # an asset and a key


def read(connection: Connection, asset_id: str, partitioning: Partitioning) -> Sequence[str]:
    """Return the keys of an asset in the order in which they were first seen; none if they are not dynamic."""
    if not partitioning.is_dynamic:
        return ()
    return [row["partition_key"] for row in connection.execute(SQL["seen_keys"], {"asset": asset_id}).fetchall()]


def add(connection: Connection, found: Iterable[Seen]) -> None:
    """Record keys that appeared."""
    rows = sorted(set(found))
    if rows:
        connection.execute(SQL["add_keys"], {"assets": [a for a, _ in rows], "keys": [k for _, k in rows]})


def report(connection: Connection, asset_id: str, partitioning: Partitioning, key: str) -> None:
    """Record the key of a report. Raise `PartitionKeyError` if the asset has as many keys as it may have."""
    if not partitioning.is_dynamic:
        return
    if connection.execute(SQL["is_seen"], {"asset": asset_id, "key": key}).fetchone():
        return
    whole = isinstance(partitioning, DynamicKeys)
    values = (key,) if whole else texts.split(key)
    for place, (axis, value) in enumerate(zip(axes_of(partitioning), values, strict=True), start=1):
        if isinstance(axis, DynamicKeys):
            where = {"asset": asset_id, "place": None if whole else place, "value": value, "limit": axis.limit}
            row = connection.execute(SQL["count_seen"], where).fetchone()
            if row is not None and row["count"] >= axis.limit and not row["known"]:
                raise PartitionKeyError(
                    f"partition key {shown(value)} of '{asset_id}' would be one more than its limit of"
                    f" {counted(axis.limit, 'key')}",
                    hint="check the key; if there are really so many, write a higher 'limit' under 'dynamic'",
                )
    add(connection, [(asset_id, key)])


def appearing(graph: Graph, asset_id: str, key: str) -> list[Seen]:
    """Return the keys of dynamic consumers that appear because an asset has a key, down the graph."""
    found: dict[Seen, None] = {}
    frontier = [(asset_id, key)]
    while frontier:
        read, one = frontier.pop()
        for workflow_id in graph.consumers(read):
            mapping = graph.mapping(read, workflow_id)
            for appeared in mapping.appearing(one) if mapping else ():
                new = [(output, appeared) for output in graph.outputs_of(workflow_id)]
                frontier.extend(seen for seen in new if seen not in found)
                found |= dict.fromkeys(new)
    return list(found)


def seed(connection: Connection, read_graph: Callable[[], Graph]) -> None:
    """Record the keys that consumers have because their inputs had them before the consumers were applied."""
    sources = connection.execute(SQL["dynamic_sources"]).fetchall()
    if not sources:
        return
    graph = read_graph()
    for row in sources:
        keys = read(connection, row["id"], document.from_json(row["partitioning"]))
        add(connection, [seen for key in keys for seen in appearing(graph, row["id"], key)])
