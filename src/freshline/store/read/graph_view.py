"""Reads the graph as a picture: where each asset is drawn, and in which state it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from freshline.graph_layout import lay_out
from freshline.model.documents.graph_view import AssetStates, GraphPicture
from freshline.store.db.database import Database
from freshline.store.db.queries import load
from freshline.store.read.partitions import Partitions
from freshline.store.read.session import ReadSession, json_value
from freshline.store.read.status import newest_of, state_of


class _Stamp(NamedTuple):
    """What a layout depends on. Assets come and change with the epoch; `forget` removes one without it."""

    epoch: int
    assets: int


class GraphView:
    """Read-only access to the picture of the graph. It keeps the layout of the last epoch."""

    def __init__(self, database: Database, partitions: Partitions) -> None:
        self._database = database
        self._partitions = partitions
        self._statements = {**load("read"), **load("graph_view")}
        self._kept: tuple[_Stamp, GraphPicture] | None = None

    def picture(self) -> GraphPicture:
        """Return the places of all assets, and the edges between them."""
        with self._session() as session:
            stamp = _Stamp(**session.rows("stamp")[0])
            kept = self._kept
            if kept is None or kept[0] != stamp:
                kept = self._kept = stamp, _picture(session, stamp.epoch)
        return kept[1]

    def states(self, assets: Sequence[str] | None = None) -> AssetStates:
        """Return the states of these assets, or of all. What does not exist is left out.

        The position is read first: an event that has its position later is about a later change.
        """
        with self._session() as session:
            position = int(session.rows("last_position")[0]["position"] or 0)
            named = None if assets is None else list(assets)
            partitions = self._partitions.at(session)
            newest = partitions.newest(named)
            rows = session.rows("states", assets=named, **newest_of(newest))
            summaries = partitions.summaries(newest)
            return {
                "at": json_value(session.rows("clock")[0]["now"]),
                "position": position,
                "epoch": session.rows("epoch")[0]["epoch"],
                "states": {row["assetId"]: state_of(row, summaries.get(row["assetId"])).value for row in rows},
            }

    @contextmanager
    def _session(self) -> Iterator[ReadSession]:
        with self._database.reading(unhurried=True) as connection:
            yield ReadSession(connection, self._statements)


def _picture(session: ReadSession, epoch: int) -> GraphPicture:
    row = session.rows("topology")[0]
    makers: dict[str, str | None] = dict(zip(row["ids"], row["slugs"], strict=True))
    made: dict[str, list[str]] = {}
    for asset_id, slug in makers.items():
        if slug is not None:
            made.setdefault(slug, []).append(asset_id)
    triggers = {
        (one, other): bool(yes)
        for one, slug, yes in zip(row["consumed"], row["consumers"], row["triggers"], strict=True)
        for other in made.get(slug, ())
        if makers.get(one) != slug  # a workflow that reads its own output has no edge to itself
    }
    layout = lay_out(makers, triggers)
    ids = [place.asset_id for place in layout.places]
    groups = {name: number for number, name in enumerate(layout.groups)}
    return {
        "epoch": epoch,
        "layers": layout.layers,
        "groups": layout.groups,
        "nodes": [
            (
                place.asset_id,
                place.layer,
                place.order,
                "source" if makers[place.asset_id] is None else "asset",
                makers[place.asset_id],
                groups[place.group],
            )
            for place in layout.places
        ],
        "edges": [(one, other, int(triggers[ids[one], ids[other]])) for one, other in layout.edges],
    }
