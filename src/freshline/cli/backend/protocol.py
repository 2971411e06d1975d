"""The methods that operating commands use: implemented by the store, and by the API client in `api`.

A command that needs any other method of the store needs the database.
"""

# ruff: noqa: D102 - the store documents each method
from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from freshline.model.backfill import BackfillRequest, BackfillStatus
from freshline.model.documents.asset import Delivery, FoundAsset, FoundWorkflow, Graph, Name, Snapshot
from freshline.model.documents.backfill import Backfill, BackfillDetail, BackfillPreview
from freshline.model.documents.decision import Decision, Plan
from freshline.model.documents.event import Event, EventDetail
from freshline.model.documents.installation import AuditEntry, Process, Tally
from freshline.model.documents.listing import About
from freshline.model.documents.partition import AssetPartitions, WantedPartitions
from freshline.model.documents.run import LogLine, Run, RunDetail
from freshline.model.documents.status import EVERYTHING_USED, Status, WantedStatus
from freshline.model.documents.watch import Watch
from freshline.model.documents.workflow import Definition
from freshline.settings import Settings

if TYPE_CHECKING:
    from freshline.model.reports import SourceReport
    from freshline.store.operations.accept import Accepted
    from freshline.store.operations.report import Reported  # it loads the driver
    from freshline.store.operations.together import ReportedTogether


Period = tuple[datetime | None, datetime | None]
ALWAYS: Period = (None, None)


class ReadOnlyBackend(Protocol):
    """Methods for reading; see `freshline.store.read.reader.Reader`."""

    def status(self, name: str | None = None, wanted: WantedStatus = EVERYTHING_USED) -> Status: ...

    def find(self, name: str) -> FoundAsset | FoundWorkflow: ...

    def why(self, name: str, limit: int = 10, *, partition: str | None = None) -> list[Decision]: ...

    def plan(self, asset: str, settings: Settings, *, partition: str | None = None) -> Plan: ...

    def partitions(self, asset: str, wanted: WantedPartitions | None = None, limit: int = 100) -> AssetPartitions: ...

    def workflow(self, slug: str) -> Definition: ...

    def names(self, prefix: str = "", limit: int = 1000) -> list[Name]: ...

    def graph(self, asset: str | None = None) -> Graph: ...

    def snapshot(self, asset: str, version: int | None = None, *, partition: str | None = None) -> Snapshot: ...

    def runs(
        self,
        limit: int = 20,
        after: str | None = None,
        status: str | None = None,
        workflow: str | None = None,
        *,
        asset: str | None = None,
        project: str | None = None,
        partition: str | None = None,
        trigger: str | None = None,
        period: Period = ALWAYS,
    ) -> list[Run]: ...

    def run_tally(self, status: str | None, trigger: str | None, about: About, *, period: Period = ALWAYS) -> Tally: ...

    def run(self, run_id: str) -> RunDetail: ...

    def find_run(self, text: str) -> str: ...

    def moving_runs(
        self,
        since: datetime,
        tracked: Sequence[str] = (),
        workflow: str | None = None,
        *,
        partition: str | None = None,
    ) -> list[Run]: ...

    def logs(
        self, run_id: str, after: int = -1, *, tail: int | None = None, period: Period = ALWAYS
    ) -> list[LogLine]: ...

    def events(
        self,
        limit: int = 20,
        after: str | None = None,
        type: str | None = None,  # noqa: A002 - the field's name
        subject: str | None = None,
        *,
        asset: str | None = None,
        project: str | None = None,
        partition: str | None = None,
        period: Period = ALWAYS,
    ) -> list[Event]: ...

    def event_tally(
        self,
        type: str | None,  # noqa: A002 - the field's name
        subject: str | None,
        about: About,
        *,
        period: Period = ALWAYS,
    ) -> Tally: ...

    def deliveries(self, asset: str, limit: int = 20) -> list[Delivery]: ...

    def watches(self, limit: int = 20, after: str | None = None) -> list[Watch]: ...

    def watch(self, asset: str) -> Watch: ...

    def event(self, text: str, limit: int = 100) -> EventDetail: ...

    def events_since(
        self,
        position: int,
        type: str | None = None,  # noqa: A002 - the field's name
        subject: str | None = None,
        *,
        asset: str | None = None,
        partition: str | None = None,
    ) -> list[Event]: ...

    def position(self, after: str | None = None) -> int: ...

    def decisions(
        self,
        limit: int = 20,
        after: str | None = None,
        workflow: str | None = None,
        asset: str | None = None,
        *,
        project: str | None = None,
        partition: str | None = None,
        outcome: str | None = None,
        period: Period = ALWAYS,
    ) -> list[Decision]: ...

    def decision_tally(self, outcome: str | None, about: About, *, period: Period = ALWAYS) -> Tally: ...

    def decisions_since(
        self, since: datetime, workflow: str | None = None, *, partition: str | None = None
    ) -> list[Decision]: ...

    def workers(self, limit: int = 100, *, stopped: bool = False) -> list[Process]: ...

    def audit(self, limit: int = 20, after: str | None = None, subject: str | None = None) -> list[AuditEntry]: ...

    def now(self) -> datetime: ...


class Operations(Protocol):
    """Everything that operating commands change; see `freshline.store.operations.operations.Operations`."""

    def report(
        self,
        asset_id: str,
        *,
        version: str | None = None,
        key: str | None = None,
        sequence: int | None = None,
        payload: Any = None,
        partition_key: str = "",
    ) -> Reported: ...

    def report_together(self, reports: Sequence[SourceReport]) -> ReportedTogether: ...

    def expire(self, asset_id: str, partition_key: str = "") -> Mapping[str, str | None]: ...

    def accept(self, asset_id: str) -> Accepted: ...

    def skip_delivery(self, asset_id: str, number: int, reason: str) -> Delivery: ...

    def request_run(
        self,
        slug: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        partition_key: str = "",
        full_refresh: bool = False,
        confirm: bool = False,
    ) -> str: ...

    def cancel(self, run_id: str, reason: str = "canceled by a user") -> str: ...

    def pause(self, slug: str, until: datetime | None = None) -> None: ...

    def resume(self, slug: str) -> None: ...

    def reset(self, slug: str) -> None: ...


class Backfills(Protocol):
    """Requests to compute partitions again; see `freshline.store.backfills.backfills.Backfills`."""

    def preview(self, request: BackfillRequest) -> BackfillPreview: ...

    def create(self, request: BackfillRequest, *, key: str | None = None) -> str: ...

    def approve(self, backfill_id: str, *, revision: int | None = None) -> None: ...

    def deny(self, backfill_id: str, *, revision: int | None = None) -> None: ...

    def find(self, backfill_id: str) -> BackfillDetail: ...

    def pause(self, backfill_id: str) -> None: ...

    def resume(self, backfill_id: str) -> None: ...

    def retry(self, backfill_id: str) -> int: ...

    def cancel(self, backfill_id: str, *, kill: bool = False) -> None: ...

    def list(
        self,
        *,
        statuses: Sequence[BackfillStatus] = (),
        asset_id: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> list[Backfill]: ...


class Backend(Protocol):
    """An installation, whether its database or its API answers."""

    @property
    def reader(self) -> ReadOnlyBackend: ...

    @property
    def operations(self) -> Operations: ...

    @property
    def backfills(self) -> Backfills: ...
