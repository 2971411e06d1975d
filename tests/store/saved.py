"""Snapshots of a database that are restored in a few milliseconds, for many cases with the same start."""

from __future__ import annotations

from freshline.store.apply.stored_graph import GraphCache
from tests.store_harness import Lab

TABLES = (
    "SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
    " AND NOT relispartition ORDER BY 1"
)
PARTITIONS = "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'public.events'::regclass"


class Saved:
    """All rows of all tables and the lab's clock, at the time of creation. `name` is the schema that holds the copy."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab = lab
        self.name = f"saved_{name}"
        self.now = lab.now
        self._tables = [row["name"] for row in lab.rows(TABLES)]
        self._known = self._partitions()
        self._do(
            f"CREATE SCHEMA {self.name}",
            *(f"CREATE TABLE {self.name}.{table} AS TABLE public.{table}" for table in self._tables),
        )
        columns = lab.rows(
            "SELECT table_name, string_agg(quote_ident(column_name), ', ' ORDER BY ordinal_position) AS names"
            " FROM information_schema.columns WHERE table_schema = 'public' AND is_generated = 'NEVER' GROUP BY 1"
        )
        self._columns = {row["table_name"]: row["names"] for row in columns}

    def restore(self) -> None:
        """Restore all rows. Keys are not checked meanwhile: they were valid when saved."""
        self.lab.now = self.now
        store = self.lab.store  # an epoch may be used again with other definitions
        store.evaluation._graph, store.backfills._graphs, store.operations._graphs = None, GraphCache(), GraphCache()
        self._do(
            "SET session_replication_role = replica",
            *(f"DROP TABLE public.{name}" for name in self._partitions() if name not in self._known),
            *(f"DELETE FROM public.{table}" for table in self._tables),
            *(self._insert(table) for table in self._tables),
            "SET session_replication_role = origin",
        )

    def _partitions(self) -> list[str]:
        return [row["name"] for row in self.lab.rows(PARTITIONS)]

    def _insert(self, table: str) -> str:
        names = self._columns[table]
        return f"INSERT INTO public.{table} ({names}) OVERRIDING SYSTEM VALUE SELECT {names} FROM {self.name}.{table}"

    def _do(self, *statements: str) -> None:
        with self.lab.database.connection() as connection:
            connection.execute("; ".join(statements).encode())
