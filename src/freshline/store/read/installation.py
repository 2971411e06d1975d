"""Reads about the installation itself: processes, tokens, the audit and webhooks. The base of `Reader`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from freshline.model.documents.installation import AuditEntry, Process, Token, ValidToken, Webhook, WebhookDelivery
from freshline.model.documents.overview import Overview
from freshline.store.alerts.read import AlertReader
from freshline.store.db.database import Database
from freshline.store.db.queries import load
from freshline.store.read import resolve
from freshline.store.read.graph_view import GraphView
from freshline.store.read.partitions import Partitions
from freshline.store.read.session import ReadSession
from freshline.store.read.status import SILENT_MS

if TYPE_CHECKING:
    from freshline.store.read.overview import OverviewReader


class InstallationReader:
    """Reads about processes, tokens, changes and webhooks, and the transaction that every read uses."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._statements = load("read")
        self.alerts = AlertReader(database)
        self._partitions = Partitions()
        self.graph_view = GraphView(database, self._partitions)
        self._overview: OverviewReader | None = None

    def overview(self) -> Overview:
        """Return what is not fresh, why, and what changed."""
        from freshline.store.read.overview import OverviewReader  # noqa: PLC0415 - only the page asks for it

        self._overview = self._overview or OverviewReader(self._database, self._partitions)
        return self._overview.read()

    def workers(self, limit: int = 100, *, stopped: bool = False) -> list[Process]:
        """List registered processes. `live` is false without a recent heartbeat."""
        with self._session() as session:
            return session.documents(Process, "workers", all=stopped, limit=limit, grace=SILENT_MS)

    def tokens(self) -> list[Token]:
        """List the API tokens, newest first."""
        with self._session() as session:
            return session.documents(Token, "tokens")

    def token(self, digest: bytes) -> ValidToken | None:
        """Return `{id, name, scope, digest, stale}` of the valid token with this SHA-256; None if there is none.

        `stale`: its last recorded use is more than a minute ago.
        """
        with self._session() as session:
            return next(iter(session.documents(ValidToken, "token", digest=digest)), None)

    def audit(self, limit: int = 20, after: str | None = None, subject: str | None = None) -> list[AuditEntry]:
        """List audited changes, optionally of one `subject`."""
        with self._session() as session:
            cursor = resolve.parse_uuid(after, "the id of a change") if after else None
            return session.documents(AuditEntry, "audit", limit=limit, after=cursor, subject=subject)

    def webhooks(self, name: str | None = None) -> list[Webhook]:
        """List webhooks by name with their delivery state, without secrets."""
        with self._session() as session:
            if (found := session.documents(Webhook, "webhooks", name=name)) or name is None:
                return found
            names = (row["name"] for row in session.rows("webhook_names"))
            raise resolve.unknown_name("webhook", name, names, listed_by="freshline webhook list")

    def webhook_deliveries(self, webhook: str, limit: int = 100, after: int | None = None) -> list[WebhookDelivery]:
        """List undelivered events of a webhook by position: those waiting for a retry, and dead letters."""
        self.webhooks(webhook)
        with self._session() as session:
            return session.documents(WebhookDelivery, "webhook_deliveries", webhook=webhook, limit=limit, after=after)

    @contextmanager
    def _session(self) -> Iterator[ReadSession]:
        with self._database.reading(unhurried=True) as connection:
            yield ReadSession(connection, self._statements)
