"""Reads the graph of all workflows. It needs no definitions, which commands that only look do not load."""

from __future__ import annotations

from freshline.decide.times import milliseconds
from freshline.graph import Graph
from freshline.store.apply.partition_edges import stored_partitions
from freshline.store.db.database import Connection
from freshline.store.db.queries import load

SQL = load("apply")


def read_graph(connection: Connection) -> Graph:
    """Return the graph of all workflows."""
    row = connection.execute(SQL["graph"]).fetchone()
    assert row is not None  # noqa: S101 - an aggregate always returns a row
    producers = dict(zip(row["made"] or (), row["makers"] or (), strict=True))
    divided = stored_partitions(producers, row["partitionings"] or {}, row["declared"] or ())
    return Graph(
        epoch=row["epoch"],
        slugs=dict(zip(row["workflows"] or (), row["slugs"] or (), strict=True)),
        producers=producers,
        edges=zip(row["read"] or (), row["readers"] or (), strict=True),
        not_automatic=row["not_automatic"] or (),
        not_triggering=[(asset_id, workflow_id) for asset_id, workflow_id in row["not_triggering"] or ()],
        partitionings=divided.partitionings,
        mappings=divided.mappings,
        requirements=divided.requirements,
        retained={one: milliseconds(after) for one, after in (row["retained"] or {}).items()},
        on_retire=divided.on_retire,
    )


class GraphCache:
    """The graph of the last epoch that was seen. Reading it costs as much as the catalogue is large."""

    def __init__(self) -> None:
        self._graph: Graph | None = None

    def read(self, connection: Connection, epoch: int | None = None) -> Graph:
        """Return the graph, and read it again unless it is of this epoch; None: of any."""
        graph = self._graph
        if graph is None or (epoch is not None and graph.epoch != epoch):
            graph = self._graph = read_graph(connection)
        return graph
