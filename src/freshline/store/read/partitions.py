"""Partitions of assets as readers see them: which exist, in which state they are, and which of them read a change.

Which partitions exist, the definitions say. Heads, runs, failures and evaluations say in which state they are: those of
an asset in one statement, counted or one by one. Lists have a bound, whatever the number of partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from itertools import groupby, islice
from typing import TYPE_CHECKING

from freshline.errors import NotFoundError
from freshline.model.documents.partition import AssetPartitions, PartitionRange, PartitionSummary, WantedPartitions
from freshline.model.documents.status import AssetStatus
from freshline.model.enums import AssetState, PartitionState
from freshline.model.json import Json
from freshline.partitions import Partitioning, Selection, TimePartitioning
from freshline.partitions.keys import shown
from freshline.store.read.session import ReadSession, json_value

if TYPE_CHECKING:
    from freshline.graph import Graph
    from freshline.reading import Expected, Newest
    from freshline.store.apply.stored_graph import GraphCache
    from freshline.store.read.affected import Change as ChangedSnapshot

MOST_UNITS = 10_000
"""How many partitions that read a change are looked at."""
MOST_KEYS = 10_000
"""How many keys one page looks at."""
MOST_COUNTED = 100_000
"""How many keys of an asset are counted one by one: of partitions that are not by time."""
MOST_COMPARED = 50_000
"""How many partitions of inputs are compared, about, for workflows that nobody starts."""
MOST_AT_ONCE = 500
MOST_EVENTS = 1_000
"""How many events that nobody has consumed yet count as changes."""

Unit = tuple[int, str]
_WHOLE = {
    AssetState.SOURCE: PartitionState.FRESH,
    AssetState.RETIRED: PartitionState.FRESH,
    AssetState.RUNNING: PartitionState.RUNNING,
    AssetState.FAILING: PartitionState.FAILED,
    AssetState.MISSING: PartitionState.MISSING,
    AssetState.FRESH: PartitionState.FRESH,
}


class Partitions:
    """The partitions of the catalogue. It keeps the graph of the last epoch between transactions."""

    def __init__(self) -> None:
        self._graphs: GraphCache | None = None

    def at(self, session: ReadSession) -> CurrentPartitions:
        """Return the partitions as one transaction sees them. Nothing is read until it is needed."""
        return CurrentPartitions(session, lambda: self._graph(session))

    def _graph(self, session: ReadSession) -> Graph:
        from freshline.store.apply.stored_graph import GraphCache  # noqa: PLC0415 - most reads do not need it

        self._graphs = self._graphs or GraphCache()
        return self._graphs.read(session.connection, session.rows("epoch")[0]["epoch"])


class CurrentPartitions:
    """The partitions of the catalogue in one transaction."""

    def __init__(self, session: ReadSession, graph: Callable[[], Graph]) -> None:
        self._session = session
        self._read_graph = graph

    @cached_property
    def graph(self) -> Graph:
        """The graph with its partitionings and mappings."""
        return self._read_graph()

    @cached_property
    def now(self) -> datetime:
        """The time of the database."""
        found: datetime = self._session.rows("clock")[0]["now"]
        return found

    @cached_property
    def known(self) -> Callable[[str], Sequence[str]]:
        """Return the dynamic keys of an asset that were seen."""
        from freshline.store.evaluation.partitions import known_keys  # noqa: PLC0415 - it loads the decision code

        return known_keys(self._session.connection, self.graph)

    @cached_property
    def latest(self) -> Newest:
        """The newest partitions that have data."""
        from freshline.store.evaluation.newest import StoredNewest  # noqa: PLC0415 - it loads the graph

        return StoredNewest(self._session.connection, self.graph, self.now)

    def readers(self, changed: ChangedSnapshot) -> list[Unit]:
        """Return the first partitions that a change concerns, the newest of each workflow first."""
        from freshline.reading import Change, readers  # noqa: PLC0415 - it loads the graph

        change = Change(changed.asset_id, changed.partition_key, changed.at, changed.sequence == 1)
        return list(islice(readers(self.graph, change, self.now, self.known, self.latest, late=False), MOST_UNITS))

    def newest(self, assets: Iterable[str] | None = None) -> dict[str, str]:
        """Return the newest partition of each asset that has partitions."""
        names = [row["id"] for row in self._session.rows("partitioned_assets", assets=_listed(assets))]
        found = {one: self._partitioning(one).newest_key(self.now, self.known(one)) for one in names}
        return {one: key or "" for one, key in found.items()}

    def summaries(self, assets: Collection[str]) -> dict[str, PartitionSummary]:
        """Return how many partitions of each of these assets are in which state."""
        counted: dict[str, dict[str, int]] = {one: {} for one in assets}
        by_time = {one: found for one in assets if isinstance(found := self._partitioning(one), TimePartitioning)}
        for row in self._states(by_time, each=False) if by_time else ():
            counted[row["asset_id"]][row["state"]] = row["count"]
        for one in assets:
            if one not in by_time:
                counted[one] = self._counted(one)
        return {one: self._summary(one, counted[one]) for one in assets}

    def page(self, asset_id: str, wanted: WantedPartitions, limit: int) -> AssetPartitions:
        """Return a page of the states of an asset's partitions, newest first. Equal states in a row are one entry."""
        partitioning = self._partitioning(asset_id)
        keys = list(islice(self._keys(asset_id, partitioning, wanted), MOST_KEYS + 1))
        looked, more = keys[:MOST_KEYS], len(keys) > MOST_KEYS
        ranges, rest = _cut(_ranges(looked, self._states_of(asset_id, looked)), wanted.state, limit)
        following = rest or (looked[-1] if more else None)
        return {
            "assetId": asset_id,
            "at": json_value(self.now),
            "partitioning": partitioning.as_json(),
            "newest": partitioning.newest_key(self.now, self.known(asset_id)),
            **self.summaries([asset_id])[asset_id],
            "items": ranges,
            "next": following,
        }

    def _partitioning(self, asset_id: str) -> Partitioning:
        return self.graph.partitioning(asset_id)

    def _keys(self, asset_id: str, partitioning: Partitioning, wanted: WantedPartitions) -> Iterator[str]:
        """Yield the existing keys that are wanted, the newest first."""
        if wanted.key is not None:
            from freshline.reading import require_kept  # noqa: PLC0415 - it loads the graph

            key = partitioning.require_exists(wanted.key, self.now, self.known(asset_id))
            yield require_kept(partitioning, key, self.graph.retained(asset_id), self.now)
            return
        selection = self._kept(asset_id)
        if wanted.first is not None or wanted.last is not None:
            selection = selection.intersection(partitioning.between(wanted.first, wanted.last))
        after = None if wanted.after is None else partitioning.parse(wanted.after)
        if after is not None and isinstance(partitioning, TimePartitioning):
            selection = selection.intersection(partitioning.between(None, after))
        keys = partitioning.keys(selection, self.now, self.known(asset_id))
        if after is None:
            yield from keys
            return
        if after not in iter(keys):
            raise NotFoundError(f"a page cannot begin after {shown(after)}: this partition is not listed")
        yield from keys

    def _states_of(self, asset_id: str, keys: Sequence[str]) -> dict[str, str]:
        if not keys:
            return {}
        return {row["partition_key"]: row["state"] for row in self._states([asset_id], each=True, keys=keys)}

    def _counted(self, asset_id: str) -> dict[str, int]:
        """Count the states of partitions that are not by time, one by one: a key may have left the definition."""
        partitioning, known = self._partitioning(asset_id), dict.fromkeys(self.known(asset_id))
        counts: dict[str, int] = {}
        kept = self._kept(asset_id)
        for row in islice(self._states([asset_id], each=True), MOST_COUNTED):
            key = row["partition_key"]
            if partitioning.exists(key, self.now, known) and kept.contains(key, partitioning):
                counts[row["state"]] = counts.get(row["state"], 0) + 1
        return counts

    def _summary(self, asset_id: str, counts: dict[str, int]) -> PartitionSummary:
        from freshline.reading import count_kept  # noqa: PLC0415 - it loads the graph

        total = count_kept(self.graph, asset_id, self.now, self.known)
        missing = total - sum(count for state, count in counts.items() if state != PartitionState.MISSING)
        known = {**counts, PartitionState.MISSING: max(0, missing)}
        return {"total": total, "counts": {state.value: known.get(state, 0) for state in PartitionState}}

    def _states(self, assets: Iterable[str], *, each: bool, keys: Sequence[str] | None = None) -> list[Json]:
        names = list(assets)
        bounds = [self._bounds(one) for one in names]
        unread = [*self._unread(names), *self._later(names, keys)]
        return self._session.rows(
            "partition_states",
            assets=names,
            firsts=[first for first, _ in bounds],
            lasts=[last for _, last in bounds],
            keys=None if keys is None else list(keys),
            each=each,
            changed=[unit[0] for unit in unread],
            changed_keys=[unit[1] for unit in unread],
        )

    def _bounds(self, asset_id: str) -> tuple[str | None, str | None]:
        """Return the first and the last existing key of partitions by time: their texts are in the order of time."""
        partitioning = self._partitioning(asset_id)
        if not isinstance(partitioning, TimePartitioning):
            return None, None
        newest = partitioning.newest_key(self.now)
        oldest = next(partitioning.keys(self._kept(asset_id), self.now, newest_first=False), None)
        return (oldest or partitioning.start, newest) if oldest and newest else (partitioning.start, "")

    def _kept(self, asset_id: str) -> Selection:
        """Return the partitions that retention has not removed."""
        from freshline.reading import kept  # noqa: PLC0415 - it loads the graph

        return kept(self.graph, asset_id, self.now)

    def _unread(self, assets: Sequence[str]) -> Iterator[Unit]:
        """Yield the partitions that read a change which nobody has consumed yet."""
        from freshline.reading import Change, existing, fed_by  # noqa: PLC0415 - it loads the graph

        for row in self._session.rows("unread_changes", assets=list(assets), limit=MOST_EVENTS):
            change = Change(row["asset_id"], row["partition_key"], row["at"], bool(row["first"]))
            fed = fed_by(self.graph, change, row["workflow_id"], self.known, self.latest)
            keys = existing(self.graph, row["workflow_id"], fed, self.now, self.known)
            yield from ((row["workflow_id"], key) for key in islice(keys, MOST_UNITS))

    def _later(self, assets: Sequence[str], keys: Sequence[str] | None) -> list[Unit]:
        """Return the partitions of workflows that nobody starts for which an input partition came later.

        No evaluation notices it, so what they read is compared, of the newest partitions.
        """
        from freshline.store.evaluation.partitions import arrays, expected  # noqa: PLC0415 - it loads the decision code

        graph, left = self.graph, MOST_COMPARED
        found: dict[Unit, list[Expected]] = {}
        for asset_id in assets:
            producer = graph.producer(asset_id)
            if producer is None or producer not in graph.not_automatic:
                continue
            existing = graph.partitioning(asset_id).keys(self._kept(asset_id), self.now, self.known(asset_id))
            wanted = iter(islice(existing, MOST_KEYS) if keys is None else keys)
            while left > 0 and (units := [(producer, key) for key in islice(wanted, MOST_AT_ONCE)]):
                read = expected(self._session.connection, graph, units, self.now)
                found |= read
                left -= sum(len(one.keys) + 1 for inputs in read.values() for one in inputs)
        if not found:
            return []
        rows = self._session.rows("later_inputs", **arrays(found))
        return [(row["workflow_id"], row["partition_key"]) for row in rows]


def whole_asset(asset: AssetStatus, now: str) -> AssetPartitions:
    """Return an asset without partitions as one partition with an empty key."""
    state = _WHOLE.get(AssetState(asset["state"]), PartitionState.STALE)
    if asset["state"] == AssetState.SOURCE and asset["version"] is None:
        state = PartitionState.MISSING
    return {
        "assetId": asset["assetId"],
        "at": now,
        "partitioning": None,
        "newest": "",
        "total": 1,
        "counts": {one.value: int(one is state) for one in PartitionState},
        "items": [{"state": state.value, "from": "", "to": "", "count": 1}],
        "next": None,
    }


def _listed(assets: Iterable[str] | None) -> list[str] | None:
    return None if assets is None else list(assets)


def _ranges(keys: Sequence[str], states: dict[str, str]) -> Iterator[PartitionRange]:
    """Yield equal states in a row, the newest first."""
    for state, found in groupby(keys, lambda key: states.get(key, PartitionState.MISSING)):
        run = list(found)
        yield {"state": str(state), "from": run[-1], "to": run[0], "count": len(run)}


def _cut(
    ranges: Iterable[PartitionRange], state: PartitionState | None, limit: int
) -> tuple[list[PartitionRange], str | None]:
    """Return the first ranges of a state, or of all; and after which key the next page begins, if there are more."""
    found: list[PartitionRange] = []
    for one in ranges:
        if state is not None and one["state"] != state:
            continue
        if len(found) == limit:
            return found, found[-1]["from"]
        found.append(one)
    return found, None
