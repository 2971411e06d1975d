"""The stored asset graph as JSON: all of it, or the ancestors and descendants of an asset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from freshline.model.documents.asset import (
    ConsumedAsset,
    Consumption,
    Graph,
    GraphAsset,
    GraphEdge,
    GraphWorkflow,
    StoredAsset,
)


class Lineage:
    """Assets, the workflows that produce them, and the assets that those consume."""

    def __init__(self, assets: Iterable[StoredAsset], consumed: Iterable[Consumption]) -> None:
        self._assets = {row["assetId"]: row for row in assets}
        self._produces: dict[str, list[str]] = defaultdict(list)
        self._consumes: dict[str, list[ConsumedAsset]] = defaultdict(list)
        self._consumers: dict[str, list[str]] = defaultdict(list)
        for asset_id, row in self._assets.items():
            if row["workflowSlug"] is not None:
                self._produces[row["workflowSlug"]].append(asset_id)
        for one in consumed:
            self._consumes[one["workflowSlug"]].append({"assetId": one["assetId"], "triggers": one["triggers"]})
            self._consumers[one["assetId"]].append(one["workflowSlug"])

    def around(self, asset_id: str) -> set[str]:
        """Return the ids of the asset, its ancestors and its descendants."""
        return _closure(asset_id, self._parents()) | _closure(asset_id, self._children())

    def as_json(self, only: Collection[str] | None = None) -> Graph:
        """Return `{assets, workflows, edges}`. An edge leads from a consumed asset to a produced one."""
        shown = [row for asset_id, row in self._assets.items() if only is None or asset_id in only]
        names = {row["assetId"] for row in shown}
        slugs = sorted({row["workflowSlug"] for row in shown if row["workflowSlug"] is not None})
        return {
            "assets": [self._asset(row, names) for row in shown],
            "workflows": [self._workflow(slug, names) for slug in slugs],
            "edges": [edge for slug in slugs for edge in self._edges(slug, names)],
        }

    def _asset(self, row: StoredAsset, names: Collection[str]) -> GraphAsset:
        slug = row["workflowSlug"]
        consumes = [c["assetId"] for c in self._consumes[slug] if c["assetId"] in names] if slug else []
        return {**row, "source": slug is None, "consumes": consumes, "consumedBy": self._consumers[row["assetId"]]}

    def _workflow(self, slug: str, names: Collection[str]) -> GraphWorkflow:
        return {
            "slug": slug,
            "consumes": [c for c in self._consumes[slug] if c["assetId"] in names],
            "produces": [asset_id for asset_id in self._produces[slug] if asset_id in names],
        }

    def _edges(self, slug: str, names: Collection[str]) -> list[GraphEdge]:
        made = self._workflow(slug, names)
        return [
            {"from": consumed["assetId"], "to": asset_id, "workflowSlug": slug, "triggers": consumed["triggers"]}
            for consumed in made["consumes"]
            for asset_id in made["produces"]
        ]

    def _parents(self) -> Mapping[str, list[str]]:
        return {
            asset_id: [c["assetId"] for c in self._consumes[row["workflowSlug"]]]
            for asset_id, row in self._assets.items()
            if row["workflowSlug"] is not None
        }

    def _children(self) -> Mapping[str, list[str]]:
        return {
            asset_id: [made for slug in slugs for made in self._produces[slug]]
            for asset_id, slugs in list(self._consumers.items())
        }


def _closure(start: str, links: Mapping[str, list[str]]) -> set[str]:
    seen, waiting = {start}, [start]
    while waiting:
        for name in links.get(waiting.pop(), ()):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen
