"""The plain baseline: the rows that the measured side wrote, written again with `executemany` into a twin database.

The twin is a copy of the same template, so that keys, constraints and indexes are the same. Nothing is decided,
claimed, locked or told; rows are bound as text, and 500 of each table go into one transaction.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

BATCH = 500
# In an order that foreign keys allow, with the column that tells when a row was written.
WRITTEN = {"snapshots": "produced_at", "heads": "produced_at", "events": "time", "runs": "queued_at", "decisions": "at"}
# So that a run is never in a later batch than a decision that names it: each has at least one.
ORDER = {"runs": "id", "decisions": "run_id, id"}
KEYS = {
    "heads": ("asset_id", "partition_key"),
    "considerations": ("workflow_id", "partition_key"),
    "workflow_partitions": ("workflow_id", "partition_key"),
}
# A consideration is there and gone again within a wave: one for each decision.
CONSIDERED = """
SELECT DISTINCT ON (workflow_id, partition_key) workflow_id::text, partition_key, at::text AS not_before, '0' AS class,
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
        """The insert; rows that the other side updated are updated here."""
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
    """The server's clock: what is written from now on is written by the measured side."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT clock_timestamp()::text").fetchone()
    assert row is not None
    return str(row[0])


def written(url: str, since: str) -> list[Rows]:
    """All rows that a database got since then: events, heads with their snapshots, considerations, runs, decisions."""
    with psycopg.connect(url) as connection:
        considered = connection.execute(CONSIDERED, [since])
        columns = tuple(column.name for column in considered.description or ())
        found = [Rows("considerations", columns, considered.fetchall())]
        for table, column in WRITTEN.items():
            found.append(select(connection, table, f"{column} >= %s ORDER BY {ORDER.get(table, column)}", since))
    return [one for one in found if one.rows]


def select(connection: psycopg.Connection[Any], table: str, where: str, *parameters: Any) -> Rows:
    """Rows of a table as texts."""
    query = "SELECT column_name FROM information_schema.columns WHERE table_name = %s ORDER BY ordinal_position"
    columns = tuple(row[0] for row in connection.execute(query, [table]).fetchall())
    texts = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in columns)
    statement = sql.SQL("SELECT {} FROM {} WHERE ").format(texts, sql.Identifier(table)) + sql.SQL(where)
    return Rows(table, columns, connection.execute(statement, parameters).fetchall())


def write(url: str, tables: Sequence[Rows], batch: int = BATCH) -> float:
    """Write them, and how long that took."""
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
    """How many rows of each table."""
    return {one.table: len(one.rows) for one in tables}
