"""`/assets`: state, history and lineage of assets, and reports about sources."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from freshline.api import models
from freshline.api.auth import RequireOperate, RequireRead
from freshline.api.pagination import After, Limit, Name, Partition, UnvalidatedRoute, Within, page, tagged
from freshline.api.problems import RequestError
from freshline.api.workflows import Key, StoreDep, one_key
from freshline.model.documents.asset import Asset, Delivery, Snapshot
from freshline.model.documents.decision import Decision, Plan
from freshline.model.documents.installation import Page
from freshline.model.documents.partition import AssetPartitions, WantedPartitions
from freshline.model.documents.watch import Watch
from freshline.model.enums import PartitionState
from freshline.model.reports import SourceReport
from freshline.store.operations.accept import Accepted
from freshline.store.operations.audit import acting
from freshline.store.operations.report import Reported
from freshline.store.operations.together import ReportedTogether
from freshline.store.store import Store

router = APIRouter(tags=["assets"], route_class=UnvalidatedRoute)
AssetId = Annotated[str, Path(max_length=200, description="Id of the asset.")]
Number = Annotated[int, Path(ge=1, lt=2**63, description="Number of the delivery.")]
First = Annotated[
    str | None, Query(alias="from", min_length=1, max_length=200, description="The first partition, for times.")
]
Last = Annotated[
    str | None, Query(alias="to", min_length=1, max_length=200, description="The last partition, for times.")
]
Version = Annotated[int | None, Query(ge=1, lt=2**63, description="Default: the current version.")]


@router.get("/assets", response_model=models.Page[models.Asset])
def list_assets(
    _: RequireRead, store: StoreDep, limit: Limit = 50, after: After = None, workflow: Name = None
) -> Page[Asset]:
    """List assets by id, with state and declaration."""
    return page(limit, lambda most: store.reader.assets(most, after, workflow), "assetId")


@router.get("/assets/graph", response_model=models.Graph)
def show_graph(_: RequireRead, store: StoreDep, request: Request, asset: Name = None) -> Response:
    """Return producers and consumers of every asset; with `asset`, only its ancestors and descendants."""
    return tagged(request, store.reader.graph(asset))


@router.get("/assets/{assetId}", response_model=models.Asset)
def show_asset(_: RequireRead, store: StoreDep, assetId: AssetId) -> Asset:
    """Return one asset, with state and declaration."""
    return store.reader.asset(assetId)


@router.get("/assets/{assetId}/history", response_model=models.Page[models.Snapshot])
def list_history(
    _: RequireRead,
    store: StoreDep,
    assetId: AssetId,
    partitionKey: Partition = None,
    limit: Limit = 50,
    after: After = None,
) -> Page[Snapshot]:
    """List the snapshots of an asset, newest first; `after` is a version.

    `partitionKey` selects those of one partition: only its versions are in one order.
    """
    before = _version(after)

    def read(most: int) -> list[Snapshot]:
        return store.reader.snapshots(assetId, most, before=before, partition=partitionKey)

    return page(limit, read, "version")


@router.get("/assets/{assetId}/snapshot", response_model=models.Snapshot)
def show_snapshot(
    _: RequireRead, store: StoreDep, assetId: AssetId, version: Version = None, partitionKey: Partition = None
) -> Snapshot:
    """Return one snapshot of an asset: location of its data, inputs, and check results.

    Of an asset with partitions `version` is one of its table. Without `partitionKey` all partitions are one snapshot.
    """
    return store.reader.snapshot(assetId, version, partition=partitionKey)


@router.get("/assets/{assetId}/partitions", response_model=models.AssetPartitions)
def list_partitions(
    _: RequireRead,
    store: StoreDep,
    assetId: AssetId,
    *,
    state: Annotated[models.PartitionState | None, Query(description="Only partitions in this state.")] = None,
    partitionKey: Partition = None,
    first: First = None,
    last: Last = None,
    limit: Limit = 100,
    after: After = None,
) -> AssetPartitions:
    """List the states of the partitions of an asset, newest first. Equal states in a row are one entry.

    `partitionKey` selects one that exists. `counts` is about all partitions that exist. A page looks at up to 10,000
    partitions, so that with `state` it can be empty and still have a `next`.
    """
    wanted = WantedPartitions(first, last, None if state is None else PartitionState(state), after, partitionKey)
    return store.reader.partitions(assetId, wanted, limit)


@router.get("/assets/{assetId}/why", response_model=models.Page[models.Decision])
def list_reasons(
    _: RequireRead,
    store: StoreDep,
    within: Within,
    assetId: AssetId,
    *,
    partitionKey: Partition = None,
    limit: Limit = 10,
    after: After = None,
) -> Page[Decision]:
    """List the last decisions about an asset, with evidence, newest first.

    The first one before `until` says why the asset was, or was not, produced at that time.
    """

    def read(most: int) -> list[Decision]:
        return store.reader.decisions(most, after, asset=assetId, partition=partitionKey, period=within)

    return page(limit, read)


@router.get("/assets/{assetId}/plan", response_model=models.Plan)
def show_plan(_: RequireRead, store: StoreDep, assetId: AssetId, partitionKey: Partition = None) -> Plan:
    """Show what would run, in which order, if the asset changed now, what would be held, and where it would stop.

    Of an asset with partitions, `partitionKey` is the one that would change.
    """
    return store.reader.plan(assetId, store.settings, partition=partitionKey)


@router.post("/assets/{assetId}/produced", response_model=models.Reported, status_code=202)
def report_asset(
    actor: RequireOperate,
    store: StoreDep,
    assetId: AssetId,
    body: models.ReportRequest | None = None,
    key: Key = None,
) -> Reported:
    """Report that a source asset changed. A produced asset is an error.

    A repeated key changes nothing; with other data it is an error.
    """
    report = body or models.ReportRequest()
    key = one_key(key, report.key)
    with acting(actor):
        return store.operations.report(
            assetId,
            version=report.data_version,
            key=key,
            sequence=report.sequence,
            payload=report.payload,
            partition_key=as_key(store, assetId, report.partition_key),
        )


@router.post("/reports", response_model=models.ReportedTogether, status_code=202)
def report_together(
    actor: RequireOperate, store: StoreDep, body: models.ReportsRequest, key: Key = None
) -> ReportedTogether:
    """Report that several sources changed as one generation: all reports are stored, or none.

    No workflow below two of the sources reads only some of the changes. `Idempotency-Key` is the key of each report
    without one.
    """
    reports = [
        SourceReport(
            one.asset_id,
            one.data_version,
            one_key(key, one.key),
            one.sequence,
            one.payload,
            as_key(store, one.asset_id, one.partition_key),
        )
        for one in body.reports
    ]
    with acting(actor):
        return store.operations.report_together(reports)


@router.get("/watches", response_model=models.Page[models.Watch])
def list_watches(_: RequireRead, store: StoreDep, limit: Limit = 50, after: After = None) -> Page[Watch]:
    """List what is looked at for sources with `watch`, by asset id."""
    return page(limit, lambda most: store.reader.watches(most, after), "assetId")


@router.get("/assets/{assetId}/watch", response_model=models.Watch)
def get_watch(_: RequireRead, store: StoreDep, assetId: AssetId) -> Watch:
    """Return the watch of a source: what the last look saw, and when the next one is due."""
    return store.reader.watch(assetId)


@router.get("/assets/{assetId}/deliveries", response_model=models.Page[models.Delivery])
def list_deliveries(
    _: RequireRead, store: StoreDep, assetId: AssetId, limit: Limit = 50, after: After = None
) -> Page[Delivery]:
    """List the deliveries of a source with `mode: append`, newest first; `after` is a number."""
    before = _version(after)
    return page(limit, lambda most: store.reader.deliveries(assetId, most, before=before), "number")


@router.post("/assets/{assetId}/deliveries/{number}/skip", response_model=models.Delivery, status_code=202)
def skip_delivery(
    actor: RequireOperate, store: StoreDep, assetId: AssetId, number: Number, body: models.SkipRequest
) -> Delivery:
    """Leave a delivery out for all consumers that have not read it. They try again at once."""
    with acting(actor):
        return store.operations.skip_delivery(assetId, number, body.reason)


@router.post("/assets/{assetId}/expire", response_model=models.Expired, status_code=202)
def expire_asset(
    actor: RequireOperate, store: StoreDep, assetId: AssetId, body: models.ExpireRequest | None = None
) -> dict[str, str | None]:
    """Expire an asset now; with an enabled `autoMaterialize` block it is produced again."""
    key = as_key(store, assetId, body.partition_key) if body else ""
    with acting(actor):
        return store.operations.expire(assetId, key)


@router.post("/assets/{assetId}/accept", response_model=models.Accepted, status_code=202)
def accept_asset(actor: RequireOperate, store: StoreDep, assetId: AssetId) -> Accepted:
    """Accept the rows that older code made as they are, until the job changes again. Without such rows: an error."""
    with acting(actor):
        return store.operations.accept(assetId)


def as_key(store: Store, asset_id: str, given: str | dict[str, str]) -> str:
    """Return a partition key as text. The values of dimensions are joined in the order of the definition."""
    return given if isinstance(given, str) else store.reader.partition_key(asset_id, given)


def _version(after: str | None) -> int | None:
    if after is None:
        return None
    if not after.isascii() or not after.isdecimal() or int(after) >= 2**63:
        raise RequestError(
            422, "invalid-request", f"after: {after!r} is not a version of an asset; a version is a positive integer"
        )
    return int(after)
