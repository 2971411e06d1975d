"""How many partitions of a backfill are frozen or sealed, and how many retention has removed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from freshline.decide.times import milliseconds
from freshline.model.enums import OnRetire
from freshline.reading import Expected, earlier, existing, expected_inputs, is_kept
from freshline.store.backfills.selecting import Catalogue, Part
from freshline.store.db.queries import load
from freshline.store.evaluation.newest import StoredNewest

SQL = load("backfills")
PARTITIONS = load("partitions")


class Ages(NamedTuple):
    """Of the partitions of one workflow: `frozen` ones do not run by themselves, `sealed` ones lack inputs.

    `outside`: they were selected too, and retention has removed them.
    """

    frozen: int
    sealed: int
    outside: int


def ages(there: Catalogue, parts: Sequence[Part]) -> dict[int, Ages]:
    """Return the counts per workflow."""
    limits = {row["id"]: row["frozen_after_ms"] for row in there.connection.execute(SQL["frozen_after"])}
    with_data = _with_data(there)
    return {
        one.workflow_id: Ages(
            _frozen(there, one, limits.get(one.workflow_id)),
            sum(1 for _ in _sealed(there, one, with_data)),
            one.outside,
        )
        for one in parts
    }


def _keys(there: Catalogue, part: Part) -> Iterator[str]:
    return existing(there.graph, part.workflow_id, part.selection, there.now, there.known)


def _frozen(there: Catalogue, part: Part, after_ms: int | None) -> int:
    if after_ms is None:
        return 0
    partitioning, horizon = there.graph.partitioning_of(part.workflow_id), earlier(there.now, milliseconds(after_ms))
    windows = (partitioning.window(key) for key in _keys(there, part))
    return sum(1 for window in windows if window is not None and window.ends <= horizon)


def _sealed(there: Catalogue, part: Part, with_data: Callable[[str], Collection[str]]) -> Iterator[str]:
    """Yield the partitions that read one without data which retention has removed."""
    graph, workflow_id = there.graph, part.workflow_id
    keeping = [
        asset_id
        for asset_id in graph.inputs(workflow_id)
        if graph.retained(asset_id) is not None and graph.on_retire(asset_id, workflow_id) is OnRetire.KEEP
    ]
    newest = StoredNewest(there.connection, graph, there.now)
    for key in _keys(there, part) if keeping else ():
        expected = expected_inputs(graph, (workflow_id, key), there.now, there.known, newest=newest)
        if any(_lacks(there, one, with_data(one.asset_id)) for one in expected if one.asset_id in keeping):
            yield key


def _lacks(there: Catalogue, expected: Expected, present: Collection[str]) -> bool:
    return any(
        key not in present and not is_kept(there.graph, expected.asset_id, key, there.now) for key in expected.keys
    )


def _with_data(there: Catalogue) -> Callable[[str], Collection[str]]:
    """Return a function that reads the partitions of an asset that have data."""
    found: dict[str, Collection[str]] = {}

    def read(asset_id: str) -> Collection[str]:
        if asset_id not in found:
            rows = there.connection.execute(PARTITIONS["head_keys"], {"asset": asset_id}).fetchall()
            found[asset_id] = frozenset(row["partition_key"] for row in rows)
        return found[asset_id]

    return read
