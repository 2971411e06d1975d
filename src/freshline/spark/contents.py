"""`freshline doctor --deep`: reads every head and computes its fingerprint again.

This finds what neither sizes nor checksums of pages show, such as a changed footer of a file. It reads all data, so it
takes as long as a query over all tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from pyspark.sql import SparkSession

from freshline.errors import NotFoundError
from freshline.model.run import PinnedInput
from freshline.plural import counted
from freshline.spark import reading
from freshline.spark.fingerprint import Fingerprint, aggregates, counted_fields, fingerprint
from freshline.storage.base import Storage, storage_at
from freshline.store.doctor.checks import Finding, finding
from freshline.store.doctor.contents import HEAD_ROWS, HEAD_UNREAD, PublishedHead, is_head, published_heads
from freshline.store.store import Store

MAX_ERROR_CHARS = 300


def examine(
    store: Store,
    session: SparkSession,
    *,
    assets: Sequence[str] = (),
    limit: int,
    minutes: float,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Finding, Finding]:
    """Compare the heads of these assets, or all, with what was published. Start none after `minutes`."""
    heads = published_heads(store.database, assets)
    if missing := sorted(set(assets) - {one.asset_id for one in heads}):
        raise NotFoundError(f"no table with a fingerprint: {', '.join(missing)}; `freshline status` lists the assets")
    storage, deadline = storage_at(store.settings.warehouse_at), time.monotonic() + minutes * 60
    wrong, unread = [], []
    for number, one in enumerate(heads, 1):
        if time.monotonic() > deadline:
            unread.append(f"asset '{one.name}' was not read")
            continue
        found = _difference(session, storage, one)
        if found and is_head(store.database, one):  # the files of an older version may have been removed meanwhile
            wrong.append(f"asset '{one.name}' version {one.sequence}: {found}")
        progress(f"{number} of {len(heads)}: {one.name}: {found or 'as published'}")
    return finding(HEAD_ROWS, wrong, limit), finding(HEAD_UNREAD, unread, limit)


def _difference(session: SparkSession, storage: Storage, one: PublishedHead) -> str | None:
    """Return how the rows differ from the published ones; None if they do not."""
    published = Fingerprint.from_json(one.fingerprint)
    try:
        parts = list(_fingerprints(session, storage, one))
    except Exception as error:  # noqa: BLE001 - Spark and the JVM raise anything for a damaged file
        line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return f"it cannot be read: {line[:MAX_ERROR_CHARS]}"
    rows = sum(part.rows for part in parts)
    sums = tuple(sum(column) for column in zip(*(part.sums for part in parts), strict=True))
    if rows != published.rows:
        return f"it has {counted(rows, 'row')}; {published.rows:,} were published"
    return None if sums == published.sums else f"its {counted(rows, 'row')} differ from what was published"


def _fingerprints(session: SparkSession, storage: Storage, one: PublishedHead) -> Iterator[Fingerprint]:
    for group in one.groups:
        yield _fingerprint(session, storage, group, one)


def _fingerprint(session: SparkSession, storage: Storage, group: PinnedInput, one: PublishedHead) -> Fingerprint:
    rows = reading.load(session, storage, group)
    fields = counted_fields(rows.schema, one.exclude)
    observed = rows.agg(*aggregates(fields, one.digits, tally=False)).first()
    assert observed is not None  # noqa: S101 - an aggregate without groups has one row
    return fingerprint(observed.asDict(), fields)
