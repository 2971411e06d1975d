"""Backfills over HTTP: implements `protocol.Backfills` with requests to `/api/v1/backfills`."""

from __future__ import annotations

from collections.abc import Sequence

from freshline.api import MAX_PAGE
from freshline.cli.backend.http import Connection
from freshline.model.backfill import BackfillRequest, BackfillStatus
from freshline.model.documents.backfill import Backfill, BackfillDetail, BackfillPreview
from freshline.model.json import Json


class Backfills:
    """Requests, shows and changes backfills through the API."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def preview(self, request: BackfillRequest) -> BackfillPreview:
        """Return what a backfill would compute."""
        found: BackfillPreview = self._connection.post("backfills", "preview", **_body(request))
        return found

    def create(self, request: BackfillRequest, *, key: str | None = None) -> str:
        """Start a backfill and return its id."""
        return str(self._connection.post("backfills", **_body(request), key=key)["id"])

    def find(self, backfill_id: str) -> BackfillDetail:
        """Return a backfill with its parts and progress."""
        found: BackfillDetail = self._connection.get("backfills", backfill_id)
        return found

    def approve(self, backfill_id: str, *, revision: int | None = None) -> None:
        """Let a proposal run. Without a revision it is the current one."""
        self._connection.post("backfills", backfill_id, "approve", revision=self._revision(backfill_id, revision))

    def deny(self, backfill_id: str, *, revision: int | None = None) -> None:
        """Accept what a proposal lists without running it."""
        self._connection.post("backfills", backfill_id, "deny", revision=self._revision(backfill_id, revision))

    def _revision(self, backfill_id: str, revision: int | None) -> int:
        return self.find(backfill_id)["revision"] if revision is None else revision

    def pause(self, backfill_id: str) -> None:
        """Pause a backfill."""
        self._connection.post("backfills", backfill_id, "pause")

    def resume(self, backfill_id: str) -> None:
        """End the pause of a backfill."""
        self._connection.post("backfills", backfill_id, "resume")

    def retry(self, backfill_id: str) -> int:
        """Try failed and refused partitions again, and return how many there were."""
        progress = self.find(backfill_id)["progress"]
        self._connection.post("backfills", backfill_id, "retry")
        return progress["failed"] + progress["refused"]

    def cancel(self, backfill_id: str, *, kill: bool = False) -> None:
        """End a backfill."""
        self._connection.post("backfills", backfill_id, "cancel", kill=kill)

    def list(
        self,
        *,
        statuses: Sequence[BackfillStatus] = (),
        asset_id: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> list[Backfill]:
        """Return backfills with their progress, newest first."""
        found: list[Backfill] = []
        while len(found) < limit:
            asked = {"asset": asset_id, "limit": min(MAX_PAGE, limit - len(found)), "after": after}
            part = self._connection.get("backfills", **asked)
            found += [one for one in part["items"] if not statuses or one["status"] in statuses]
            after = part["next"]
            if after is None:
                break
        return found


def _body(request: BackfillRequest) -> Json:
    policy = request.policy
    return {
        "assetId": request.asset_id,
        "from": request.first,
        "to": request.last,
        "upstream": request.upstream,
        "downstream": request.downstream,
        "only": str(policy.only),
        "batch": policy.batch,
        "concurrency": policy.concurrency,
        "order": "newest" if policy.newest_first else "oldest",
        "notBefore": policy.not_before.isoformat() if policy.not_before else None,
        "duringQuietHours": policy.during_quiet_hours,
        "priority": policy.priority,
        "partial": policy.partial,
        **({"keys": list(request.keys)} if request.keys else {}),
    }
