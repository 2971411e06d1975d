"""The baseline of store benchmarks: the same rows, written with `executemany` into a second database.

The second database is a copy of the same template, so keys, constraints and indexes are the same. The baseline does not
decide, claim, lock or notify. It binds rows as text and writes 500 of each table in one transaction.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

BATCH = 500
# In an order that satisfies the foreign keys, with the column of the time of writing.
WRITTEN = {"snapshots": "produced_at", "heads": "produced_at", "events": "time", "runs": "queued_at", "decisions": "at"}
# A run is never in a later batch than a decision that references it: each run has at least one.
ORDER = {"runs": "id", "decisions": "run_id, id"}
KEYS = {
    "heads": ("asset_id", "partition_key"),
    "considerations": ("workflow_id", "partition_key"),
    "workflow_partitions": ("workflow_id", "partition_key"),
}
# Considerations are inserted and deleted within a wave: one for each decision.
CONSIDERED = """
SELECT DISTINCT ON (workflow_id, partition_key) workflow_id::text, partition_key, at::text AS not_before,
       'event' AS class,
       at::text AS noted_at
  FROM decisions WHERE at >= %s ORDER BY workflow_id, partition_key
"""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one table, each a tuple of texts."""

    table: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str | None, ...]]

    @property
    def statement(self) -> sql.Composed:
        """Return the INSERT; rows that the measured side updated are updated here too."""
        names = sql.SQL(", ").join(map(sql.Identifier, self.columns))
        values = sql.SQL(", ").join(sql.Placeholder() * len(self.columns))
        insert = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(sql.Identifier(self.table), names, values)
        keys = KEYS.get(self.table)
        if keys is None:
            return insert
        changes = sql.SQL(", ").join(
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in self.columns if name not in keys
        )
        conflict = sql.SQL(" ON CONFLICT ({}) DO UPDATE SET {}")
        return insert + conflict.format(sql.SQL(", ").join(map(sql.Identifier, keys)), changes)


def now(url: str) -> str:
    """Return the server's time: rows written after it belong to the measured side."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT clock_timestamp()::text").fetchone()
    assert row is not None
    return str(row[0])


def written(url: str, since: str) -> list[Rows]:
    """Return all rows written since then: events, heads with their snapshots, considerations, runs, decisions."""
    with psycopg.connect(url) as connection:
        considered = connection.execute(CONSIDERED, [since])
        columns = tuple(column.name for column in considered.description or ())
        found = [Rows("considerations", columns, considered.fetchall())]
        for table, column in WRITTEN.items():
            found.append(select(connection, table, f"{column} >= %s ORDER BY {ORDER.get(table, column)}", since))
    return [one for one in found if one.rows]


def select(connection: psycopg.Connection[Any], table: str, where: str, *parameters: Any) -> Rows:
    """Return rows of a table as texts."""
    query = "SELECT column_name FROM information_schema.columns WHERE table_name = %s ORDER BY ordinal_position"
    columns = tuple(row[0] for row in connection.execute(query, [table]).fetchall())
    texts = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in columns)
    statement = sql.SQL("SELECT {} FROM {} WHERE ").format(texts, sql.Identifier(table)) + sql.SQL(where)
    return Rows(table, columns, connection.execute(statement, parameters).fetchall())


def write(url: str, tables: Sequence[Rows], batch: int = BATCH) -> float:
    """Write the rows, and return the seconds it took."""
    statements = [one.statement for one in tables]
    longest = max((len(one.rows) for one in tables), default=0)
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        began = time.perf_counter()
        for first in range(0, longest, batch):
            with connection.transaction():
                for one, statement in zip(tables, statements, strict=True):
                    chunk = one.rows[first : first + batch]
                    if chunk:
                        cursor.executemany(statement, chunk)
        return time.perf_counter() - began


def counts(tables: Sequence[Rows]) -> Mapping[str, int]:
    """Return the number of rows per table."""
    return {one.table: len(one.rows) for one in tables}
