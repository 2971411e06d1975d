"""All reads of the store, as JSON.

Field names are those of the command line and the API. Times are ISO 8601 in UTC. Each method is one read-only
transaction on one snapshot of the database, with a fixed number of statements regardless of the number of rows.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, cast

from freshline.model.documents.asset import (
    Asset,
    Consumption,
    Delivery,
    FoundAsset,
    FoundWorkflow,
    Graph,
    Name,
    Snapshot,
    StoredAsset,
)
from freshline.model.documents.decision import Decision, Plan
from freshline.model.documents.partition import AssetPartitions, WantedPartitions
from freshline.model.documents.status import EVERYTHING_USED, Status, WantedStatus, WorkflowStatus
from freshline.model.documents.watch import Watch
from freshline.model.documents.workflow import Definition, PolicyStatus
from freshline.model.json import Json
from freshline.store.read import declarations, resolve, snapshots
from freshline.store.read.history import MAX_LIMIT, HistoryReader
from freshline.store.read.lineage import Lineage
from freshline.store.read.partitions import whole_asset
from freshline.store.read.resolve import PartitionKey
from freshline.store.read.session import json_value
from freshline.store.read.status import SILENT_MS, newest_of, notes, read_status, workflow_status

if TYPE_CHECKING:
    from freshline.settings import Settings
    from freshline.simulation.from_store import Facts


class Reader(HistoryReader):
    """Read-only access to one database."""

    def names(self, prefix: str = "", limit: int = MAX_LIMIT) -> list[Name]:
        """List assets and workflows that are not retired, by name."""
        with self._session() as session:
            return session.documents(Name, "names", prefix=prefix, limit=limit)

    def why(self, name: str, limit: int = 10, *, partition: str | None = None) -> list[Decision]:
        """List the last decisions about an asset, or about a workflow by its slug."""
        found = self.find(name)
        if "slug" in found:
            return self.decisions(limit, workflow=found["slug"], partition=partition)
        return self.decisions(limit, asset=found["assetId"], partition=partition)

    def status(self, name: str | None = None, wanted: WantedStatus = EVERYTHING_USED) -> Status:
        """Return the assets, workflows and pools: all, or those of one asset or workflow, or of a pattern.

        Retired assets are left out, unless one is named or they are wanted.
        """
        with self._session() as session:
            return read_status(session, self._partitions.at(session), name, wanted)

    def partitions(self, asset: str, wanted: WantedPartitions | None = None, limit: int = 100) -> AssetPartitions:
        """Return a page of the states of an asset's partitions, newest first; equal states in a row are one entry."""
        with self._session() as session:
            current = self._partitions.at(session)
            if resolve.asset(session, asset)["partitioning"] is not None:
                return current.page(asset, wanted or WantedPartitions(), limit)
            return whole_asset(declarations.assets(session, current, assets=[asset])[0], json_value(current.now))

    def notes(self) -> list[str]:
        """Return the notes of `status`: work that no running process can do."""
        with self._session() as session:
            return notes(session.rows("queue", grace=SILENT_MS)[0])

    def waiting(self) -> float | None:
        """Return the age in seconds of the oldest event in the inbox; None if the inbox is empty."""
        with self._session() as session:
            return cast("float | None", session.rows("waiting")[0]["age"])

    def measures(self, assets: int) -> Json:
        """Return queue depths and ages, holds by reason, processes by kind, ages and lags of up to `assets` assets."""
        with self._session() as session:
            return {
                **session.json_rows("measures")[0],
                "holds": session.json_rows("measured_holds"),
                "workers": session.json_rows("measured_workers", grace=SILENT_MS),
                "assets": session.json_rows("measured_assets", limit=assets),
                "lags": session.json_rows("measured_lags", limit=assets),
            }

    def graph(self, asset: str | None = None) -> Graph:
        """Return `{assets, workflows, edges}`: all, or only the ancestors and descendants of an asset."""
        with self._session() as session:
            if asset is not None:
                resolve.asset(session, asset)
            lineage = Lineage(session.documents(StoredAsset, "graph_assets"), session.documents(Consumption, "edges"))
        return lineage.as_json(None if asset is None else lineage.around(asset))

    def assets(self, limit: int = 20, after: str | None = None, workflow: str | None = None) -> list[Asset]:
        """List assets by id, with state and declaration. `after` is an asset id, `workflow` a slug."""
        with self._session() as session:
            only = resolve.workflow_id(session, workflow)
            partitions = self._partitions.at(session)
            return declarations.assets(session, partitions, limit=limit, after=after, workflow=only)

    def asset(self, asset_id: str) -> Asset:
        """Return an asset with state and declaration."""
        with self._session() as session:
            resolve.asset(session, asset_id)
            return declarations.assets(session, self._partitions.at(session), assets=[asset_id])[0]

    def workflows(self, limit: int = 20, after: str | None = None) -> list[WorkflowStatus]:
        """List workflows by slug, as in `status`. `after` is a slug."""
        with self._session() as session:
            slugs = [row["slug"] for row in session.rows("workflow_page", limit=limit, after=after)]
            newest = newest_of(self._partitions.at(session).newest())
            return [workflow_status(row) for row in session.rows("status_workflows", slugs=slugs, **newest)]

    def workflow(self, slug: str) -> Definition:
        """Return the current definition of a workflow, as declarations."""
        with self._session() as session:
            resolve.workflow_id(session, slug)
            return session.documents(Definition, "definition", slug=slug)[0]

    def policy(self, slug: str) -> PolicyStatus:
        """Return the policy status of a workflow: its last automatic run, the next one and its reason, and its hold."""
        with self._session() as session:
            workflow_id = resolve.workflow_id(session, slug)
            return declarations.policy(session, self._partitions.at(session), slug, workflow_id)

    def snapshots(
        self,
        asset: str,
        limit: int = 20,
        *,
        before: int | None = None,
        partition: PartitionKey | None = None,
        changed: bool = False,
    ) -> list[Snapshot]:
        """List the snapshots of an asset or a partition. `before`: lower versions only; `changed`: other data only."""
        with self._session() as session:
            return snapshots.listed(session, asset, limit, before=before, partition=partition, changed=changed)

    def watches(self, limit: int = 20, after: str | None = None) -> list[Watch]:
        """List the watches of sources. `after` is an asset id."""
        with self._session() as session:
            return session.documents(Watch, "watches", asset=None, limit=limit, after=after)

    def watch(self, asset: str) -> Watch:
        """Return the watch of a source, with what its last look saw."""
        with self._session() as session:
            return resolve.watch(session, asset)

    def deliveries(self, asset: str, limit: int = 20, *, before: int | None = None) -> list[Delivery]:
        """List the deliveries of an append source, newest first. `before`: only numbers lower than this one."""
        with self._session() as session:
            resolve.asset(session, asset)
            found = session.rows("deliveries", asset=asset, limit=limit, before=before)
            return [declarations.delivery(row["item"]) for row in found]

    def snapshot(self, asset: str, version: int | None = None, *, partition: PartitionKey | None = None) -> Snapshot:
        """Return a snapshot of an asset, or of one partition: the given version, or the current one."""
        with self._session() as session:
            return snapshots.found(session, asset, version, partition=partition)

    def partition_key(self, asset: str, given: PartitionKey) -> str:
        """Return the canonical key of a partition of an asset; the empty key for an asset without partitions.

        The key of several dimensions may be given as an object.
        """
        with self._session() as session:
            return resolve.partition_key(session, given, asset, None) or ""

    def find(self, name: str) -> FoundAsset | FoundWorkflow:
        """Return the asset `{assetId, workflowSlug, ...}` with this name, else the workflow `{slug}`."""
        with self._session() as session:
            return resolve.asset_or_workflow(session, name)

    def now(self) -> datetime:
        """Return the time of the database. All stored times are from this clock."""
        with self._session() as session:
            return cast("datetime", session.rows("clock")[0]["now"])

    def below(self, asset: str) -> Facts:
        """Return the state of all workflows downstream of an asset and of their ancestors."""
        from freshline.store.apply import preview  # noqa: PLC0415 - other reads do not need the definitions

        with self._session() as session:
            resolve.asset(session, asset)
            return preview.below(session.connection, asset)

    def plan(self, asset: str, settings: Settings, *, partition: str | None = None) -> Plan:
        """Simulate a change of the asset: the runs in their order, the holds, and where it stops."""
        from freshline.store.apply import preview  # noqa: PLC0415 - other reads do not need the simulation

        key = self.partition_key(asset, partition or "")
        with self._session() as session:
            wave = preview.partition_wave(session.connection, asset, key, settings)
        return {"assetId": asset, **(wave or preview.simulated(self.below(asset), asset, key, settings))}

    def history(self, since: datetime, most: int | None = None) -> dict[str, list[Json]]:
        """Return `{workflows, reports, runs}` since then, up to `most` of each, for a replay in the simulation."""
        from freshline.store.apply import preview  # noqa: PLC0415 - other reads do not need the definitions

        with self._session() as session:
            return preview.history(session.connection, since, most)
