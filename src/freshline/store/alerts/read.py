"""Reads rules, incidents and messages for people. No statement here reads an address."""

from __future__ import annotations

from freshline.model.documents.alert import Alert, AlertIncident, AlertMessage
from freshline.store.db.database import Database
from freshline.store.db.queries import load
from freshline.store.read.resolve import parse_uuid, unknown_name
from freshline.store.read.session import ReadSession


class AlertReader:
    """Read-only access to alerts."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._statements = load("alerts")

    def rules(self, name: str | None = None) -> list[Alert]:
        """List rules by name with the state of their messages, without addresses."""
        with self._database.reading() as connection:
            session = ReadSession(connection, self._statements)
            found = session.documents(Alert, "alerts", name=name)
            if name is not None and not found:
                names = (row["name"] for row in session.rows("rule_names"))
                raise unknown_name("alert", name, names, listed_by="freshline alert list")
            return found

    def incidents(
        self, name: str, limit: int = 20, after: str | None = None, *, only_open: bool = False
    ) -> list[AlertIncident]:
        """List the incidents of a rule, newest first. `after`: the last id of the previous page."""
        self.rules(name)
        cursor = parse_uuid(after, "an incident's id") if after else None
        with self._database.reading() as connection:
            session = ReadSession(connection, self._statements)
            asked = {"name": name, "limit": limit, "after": cursor, "open": only_open}
            return session.documents(AlertIncident, "incidents", **asked)

    def messages(self, name: str, limit: int = 20, after: int | None = None) -> list[AlertMessage]:
        """List the messages of a rule, newest first. `after`: the last number of the previous page."""
        self.rules(name)
        with self._database.reading() as connection:
            session = ReadSession(connection, self._statements)
            return session.documents(AlertMessage, "messages", name=name, limit=limit, after=after)
