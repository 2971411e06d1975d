"""Named statements in one read-only transaction, with rows as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, LiteralString, TypeVar, cast
from uuid import UUID

from freshline.model.json import Json
from freshline.model.moment import iso
from freshline.store.db.database import Connection

T = TypeVar("T")


class ReadSession:
    """One transaction of the reader, and the statements that it can run."""

    def __init__(self, connection: Connection, statements: Mapping[str, LiteralString]) -> None:
        self._connection = connection
        self._statements = statements

    @property
    def connection(self) -> Connection:
        """Return the connection, for the statements of other modules."""
        return self._connection

    def rows(self, statement: str, /, **parameters: Any) -> list[Json]:
        """Return the rows as the driver returns them."""
        return self._connection.execute(self._statements[statement], parameters).fetchall()

    def json_rows(self, statement: str, /, **parameters: Any) -> list[Json]:
        """Return the rows with values that JSON can represent."""
        return [{key: json_value(value) for key, value in row.items()} for row in self.rows(statement, **parameters)]

    def documents(self, kind: type[T], statement: str, /, **parameters: Any) -> list[T]:  # noqa: ARG002 - for mypy
        """Return the rows of a statement whose columns are the fields of `kind`."""
        return cast("list[T]", self.json_rows(statement, **parameters))


def json_value(value: Any) -> Any:
    """Return times as ISO 8601 in UTC, UUIDs as text, and other values unchanged."""
    if isinstance(value, datetime):
        return iso(value)
    return str(value) if isinstance(value, UUID) else value
