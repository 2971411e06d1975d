"""What `freshline doctor --deep` compares: heads with a fingerprint, and how their directories were written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from freshline.model.json import Json
from freshline.model.run import PinnedInput
from freshline.model.state import reference
from freshline.store.db.database import Database, Row
from freshline.store.db.queries import load
from freshline.store.doctor.checks import Check, Severity

SQL = load("doctor")
HEAD_ROWS = Check(
    "head-rows",
    Severity.ERROR,
    "the rows of every head are those that were published",
    "restore the directory from a backup; or `freshline run` of its workflow with --full-refresh writes the table "
    "again from what its inputs hold now, and first says which rows would be dropped. If `dataVersion` of the asset "
    "was changed since it was published, run the workflow first",
)
HEAD_UNREAD = Check(
    "head-unread",
    Severity.NOTE,
    "`doctor --deep` reads every head within --minutes",
    "run it again with --asset or more --minutes",
)


@dataclass(frozen=True, slots=True)
class PublishedHead:
    """A table as it was published. `groups`: its directories by the columns that they were written with."""

    asset_id: str
    partition_key: str
    sequence: int
    fingerprint: Json
    exclude: tuple[str, ...]
    digits: int | None
    groups: Sequence[PinnedInput]

    @property
    def name(self) -> str:
        """The asset, with its partition."""
        return reference(self.asset_id, self.partition_key)


def published_heads(database: Database, assets: Sequence[str]) -> list[PublishedHead]:
    """Return the heads of these assets, or all, smallest first."""
    with database.reading(unhurried=True) as connection:
        rows = connection.execute(SQL["fingerprinted_heads"], {"assets": list(assets) or None}).fetchall()
        schemas = {
            asset_id: {
                part["path"]: part["schema"] for part in connection.execute(SQL["part_schemas"], {"asset": asset_id})
            }
            for asset_id in sorted({row["asset"] for row in rows})
        }
    return [_published(row, schemas[row["asset"]]) for row in rows]


def is_head(database: Database, one: PublishedHead) -> bool:
    """Return whether the table is still current."""
    with database.reading() as connection:
        row = connection.execute(SQL["head_sequence"], {"asset": one.asset_id, "key": one.partition_key}).fetchone()
    return bool(row and row["sequence"] == one.sequence)


def _published(row: Row, schemas: dict[str, Json]) -> PublishedHead:
    rule = row["rule"] or {}
    paths = [path for _, path in row["parts"]] if row["parts"] else row["location"]["paths"]
    groups: list[tuple[Json, list[str]]] = []
    for path in paths:
        schema = schemas.get(path) or row["schema"]
        if not groups or groups[-1][0] != schema:
            groups.append((schema, []))
        groups[-1][1].append(path)
    return PublishedHead(
        asset_id=row["asset"],
        partition_key=row["key"],
        sequence=row["sequence"],
        fingerprint=row["location"]["fingerprint"],
        exclude=tuple(rule.get("exclude", ())),
        digits=rule.get("digits"),
        groups=[_group(row, schema, some) for schema, some in groups],
    )


def _group(row: Row, schema: Json, paths: list[str]) -> PinnedInput:
    location = {**row["location"], "paths": paths}
    return PinnedInput(row["asset"], row["sequence"], "", location, schema=schema)
