"""Changes of an installation over HTTP: implements the operations of `protocol`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from freshline.cli.backend.http import Connection
from freshline.model.documents.asset import Delivery
from freshline.model.json import Json

if TYPE_CHECKING:
    from freshline.model.reports import SourceReport
    from freshline.store.operations.accept import Accepted
    from freshline.store.operations.report import Reported  # it loads the driver
    from freshline.store.operations.together import ReportedTogether


def _of(partition_key: str) -> dict[str, str]:
    """Return the field of a body that names a partition. An API of 0.1 does not know it."""
    return {"partitionKey": partition_key} if partition_key else {}


class Operations:
    """Changes an installation through its API. The audit names the token."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def report(
        self,
        asset_id: str,
        *,
        version: str | None = None,
        key: str | None = None,
        sequence: int | None = None,
        payload: Any = None,
        partition_key: str = "",
    ) -> Reported:
        """Report a change of a source asset."""
        given = {"dataVersion": version, "key": key, "sequence": sequence, "payload": payload, **_of(partition_key)}
        found: Reported = self._connection.post("assets", asset_id, "produced", **given)
        return found

    def report_together(self, reports: Sequence[SourceReport]) -> ReportedTogether:
        """Report changes of several sources as one generation."""
        given = [
            {
                "assetId": one.asset_id,
                "dataVersion": one.version,
                "key": one.key,
                "sequence": one.sequence,
                "payload": one.payload,
                **_of(one.partition_key),
            }
            for one in reports
        ]
        found: ReportedTogether = self._connection.post("reports", reports=given)
        return found

    def expire(self, asset_id: str, partition_key: str = "") -> Mapping[str, str | None]:
        """Expire an asset."""
        return self._change("assets", asset_id, "expire", **_of(partition_key))

    def accept(self, asset_id: str) -> Accepted:
        """Accept the rows of older code of an asset."""
        found: Accepted = self._connection.post("assets", asset_id, "accept")
        return found

    def skip_delivery(self, asset_id: str, number: int, reason: str) -> Delivery:
        """Leave a delivery out."""
        found: Delivery = self._connection.post("assets", asset_id, "deliveries", str(number), "skip", reason=reason)
        return found

    def request_run(
        self,
        slug: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        partition_key: str = "",
        full_refresh: bool = False,
        confirm: bool = False,
    ) -> str:
        """Queue a manual run and return its id."""
        asked = {
            "parameters": dict(parameters or {}),
            "fullRefresh": full_refresh,
            "key": key,
            **_of(partition_key),
        }
        if confirm:
            asked["confirm"] = True  # an API of 0.1 does not know it
        return str(self._change("workflows", slug, "run", **asked)["id"])

    def cancel(self, run_id: str, reason: str = "canceled by a user") -> str:
        """Cancel a run and return its status."""
        return str(self._change("runs", run_id, "cancel", reason=reason)["status"])

    def pause(self, slug: str, until: datetime | None = None) -> None:
        """Hold the automatic runs of a workflow."""
        self._change("workflows", slug, "pause", until=until.isoformat() if until else None)

    def resume(self, slug: str) -> None:
        """End a pause."""
        self._change("workflows", slug, "resume")

    def reset(self, slug: str) -> None:
        """Reset the failures and the cancellation of a workflow."""
        self._change("workflows", slug, "reset")

    def _change(self, *path: str, **body: Any) -> Json:
        found: Json = self._connection.post(*path, **body)
        return found
