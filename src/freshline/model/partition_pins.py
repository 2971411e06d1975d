"""The pinned partitions of an input: which of them are read together, and errors that both readers raise."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from freshline.errors import JobError
from freshline.model.run import PinnedInput, TimeCut


def groups(pinned: PinnedInput) -> Iterator[list[PinnedInput]]:
    """Yield the partitions that can be read together, those with the newest first: its columns come first.

    Raise JobError if partitions have different types of one column, which cannot be one table.
    """
    members = [replace(one, schema=one.schema or pinned.schema) for one in pinned.partitions or ()]
    found: dict[str, list[PinnedInput]] = {}
    for one in sorted(members, key=lambda one: one.table_version or 0, reverse=True):
        location = one.location or {}
        kind = [location.get("format"), location.get("options"), location.get("partitionBy"), "paths" in location]
        found.setdefault(json.dumps([*kind, one.schema], sort_keys=True), []).append(one)
    _check_types(pinned.asset_id, [group[0] for group in found.values()])
    yield from found.values()


def missing_column(asset_id: str, cut: TimeCut, columns: Sequence[str]) -> JobError:
    """Return the error of a column of time that the input does not have."""
    return JobError(
        f"input {asset_id!r}: timeColumn names {cut.column!r}, which it does not have; its columns are "
        f"{', '.join(columns)}"
    )


def wrong_type(asset_id: str, cut: TimeCut, kind: str) -> JobError:
    """Return the error of a column that cannot be compared with the window."""
    allowed = "TIMESTAMP" if cut.first_day is None else "TIMESTAMP and DATE"
    return JobError(
        f"input {asset_id!r}: timeColumn {cut.column!r} has the type {kind.upper()}; allowed is {allowed}",
        hint="cast it in the workflow that makes the input, or declare the 'schema' of the source",
    )


def _check_types(asset_id: str, members: Sequence[PinnedInput]) -> None:
    known: dict[str, tuple[str, PinnedInput]] = {}
    for one in members:
        fields = one.schema.get("fields") if isinstance(one.schema, dict) else None
        for field in fields or ():
            kind = json.dumps(field["type"], sort_keys=True)
            other_kind, other = known.setdefault(field["name"].lower(), (kind, one))
            if other_kind != kind:
                raise JobError(
                    f"asset {asset_id!r}: column {field['name']!r} is {_shown(other_kind)} in partition "
                    f"{other.partition_key!r} and {_shown(kind)} in partition {one.partition_key!r}; they cannot be "
                    "read as one table",
                    hint="compute the older partition again with the current job",
                )


def _shown(kind: str) -> str:
    found = json.loads(kind)
    return found if isinstance(found, str) else str(found.get("type", found))
