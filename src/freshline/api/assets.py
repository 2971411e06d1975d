"""`/assets`: how they stand, where they come from, and what the outside says about them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from freshline.api import models
from freshline.api.auth import Operating, Reading
from freshline.api.pagination import After, Limit, Name, Plain, page, tagged
from freshline.api.problems import Refusal
from freshline.api.workflows import Key, Stored, one_key
from freshline.model.json import Json
from freshline.store.operations.audit import acting
from freshline.store.operations.report import Reported

router = APIRouter(tags=["assets"], route_class=Plain)
AssetId = Annotated[str, Path(max_length=200)]
Version = Annotated[int | None, Query(ge=1, lt=2**63, description="Default: the current one.")]


@router.get("/assets", response_model=models.Page[models.Asset])
def list_assets(_: Reading, store: Stored, limit: Limit = 50, after: After = None, workflow: Name = None) -> Json:
    """Assets by id, with their state and what was declared about them."""
    return page(limit, lambda most: store.reader.assets(most, after, workflow), "assetId")


@router.get("/assets/graph", response_model=models.Graph)
def show_graph(_: Reading, store: Stored, request: Request, asset: Name = None) -> Response:
    """Who makes and who reads which asset; with `asset`, only what it stems from and what stems from it."""
    return tagged(request, store.reader.graph(asset))


@router.get("/assets/{assetId}", response_model=models.Asset)
def show_asset(_: Reading, store: Stored, assetId: AssetId) -> Json:  # noqa: N803 - the name of the field
    """One asset, with its state and what was declared about it."""
    return store.reader.asset(assetId)


@router.get("/assets/{assetId}/history", response_model=models.Page[models.Snapshot])
def list_history(_: Reading, store: Stored, assetId: AssetId, limit: Limit = 50, after: After = None) -> Json:  # noqa: N803
    """Its snapshots, newest first; `after` is a version."""
    before = _version(after)
    return page(limit, lambda most: store.reader.snapshots(assetId, most, before=before), "version")


@router.get("/assets/{assetId}/snapshot", response_model=models.Snapshot)
def show_snapshot(_: Reading, store: Stored, assetId: AssetId, version: Version = None) -> Json:  # noqa: N803
    """One of its snapshots: where its data is, what it was made from, and how its checks went."""
    return store.reader.snapshot(assetId, version)


@router.get("/assets/{assetId}/partitions", response_model=models.Page[models.AssetState])
def list_partitions(_: Reading, store: Stored, assetId: AssetId) -> Json:  # noqa: N803
    """Its partitions; an asset without partitions has one, whose key is empty."""
    found = store.reader.asset(assetId)
    names = {field.alias for field in models.AssetState.model_fields.values()}
    return {"items": [{name: value for name, value in found.items() if name in names}], "next": None}


@router.get("/assets/{assetId}/why", response_model=models.Page[models.Decision])
def list_reasons(_: Reading, store: Stored, assetId: AssetId, limit: Limit = 10, after: After = None) -> Json:  # noqa: N803
    """The last decisions about it, with their evidence, newest first."""
    return page(limit, lambda most: store.reader.decisions(most, after, asset=assetId))


@router.get("/assets/{assetId}/plan", response_model=models.Planned)
def show_plan(_: Reading, store: Stored, assetId: AssetId) -> Json:  # noqa: N803
    """What would run, in which order, if it changed now; what would be held, and where it would stop."""
    return store.reader.plan(assetId, store.settings)


@router.post("/assets/{assetId}/produced", response_model=models.Reported, status_code=202)
def report_asset(
    actor: Operating,
    store: Stored,
    assetId: AssetId,  # noqa: N803
    asked: models.ProducedAsked | None = None,
    key: Key = None,
) -> Reported:
    """The outside changed a source asset. The same key again changes nothing; a produced asset is refused."""
    said = asked or models.ProducedAsked()
    key = one_key(key, said.key)
    with acting(actor):
        return store.operations.report(
            assetId, version=said.data_version, key=key, sequence=said.sequence, payload=said.payload
        )


@router.post("/assets/{assetId}/expire", response_model=models.Expired, status_code=202)
def expire_asset(actor: Operating, store: Stored, assetId: AssetId, _: models.Nothing | None = None) -> Json:  # noqa: N803
    """As if its freshness had run out: with an enabled `autoMaterialize` block it is made anew."""
    with acting(actor):
        return store.operations.expire(assetId)


def _version(after: str | None) -> int | None:
    if after is None:
        return None
    if not after.isascii() or not after.isdecimal() or int(after) >= 2**63:
        raise Refusal(422, "invalid-request", f"after: {after!r} is no version of an asset")
    return int(after)
