"""One read-only look at the database: rows by named statement, and the things that a user named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from freshline.errors import NotFoundError, UsageError
from freshline.model.json import Json
from freshline.model.moment import iso
from freshline.store.db.database import Connection
from freshline.suggest import did_you_mean

SHORTEST_SUFFIX = 6
_RUN_ID = re.compile(rf"[0-9a-f]{{{SHORTEST_SUFFIX},32}}")


class Look:
    """Statements on one connection, inside one transaction of the reader."""

    def __init__(self, connection: Connection, statements: Mapping[str, LiteralString]) -> None:
        self._connection = connection
        self._statements = statements

    @property
    def connection(self) -> Connection:
        """The connection, for statements that belong to other modules."""
        return self._connection

    def raw(self, statement: str, /, **parameters: Any) -> list[Json]:
        """The rows as the driver gives them."""
        return self._connection.execute(self._statements[statement], parameters).fetchall()

    def all(self, statement: str, /, **parameters: Any) -> list[Json]:
        """The rows as JSON data."""
        return [{key: plain(value) for key, value in row.items()} for row in self.raw(statement, **parameters)]

    # --- what a user named ------------------------------------------------------------------------------------------

    def asset(self, asset_id: str) -> Json:
        """The asset with this id; unknown ones are answered with did-you-mean."""
        if rows := self.all("asset", asset=asset_id):
            return rows[0]
        raise unknown("asset", asset_id, (row["assetId"] for row in self.raw("asset_names")))

    def workflow_id(self, slug: str | None) -> int | None:
        """The id of the workflow with this slug; None for None."""
        if slug is None:
            return None
        if rows := self.raw("workflow", slug=slug):
            return int(rows[0]["id"])
        raise unknown("workflow", slug, (row["slug"] for row in self.raw("workflow_names")))

    def named(self, name: str) -> Json:
        """The asset or the workflow `{slug}` with this name; an asset wins."""
        if rows := self.all("asset", asset=name):
            return rows[0]
        if rows := self.all("workflow", slug=name):
            return {"slug": rows[0]["slug"]}
        names = [row["assetId"] for row in self.raw("asset_names")] + [
            row["slug"] for row in self.raw("workflow_names")
        ]
        raise unknown("asset or workflow", name, names)

    def run_id(self, text: str) -> str:
        """The full id of a run, from its id or a unique suffix: ids of one moment begin alike and differ at the end."""
        suffix = text.replace("-", "").lower()
        if not _RUN_ID.fullmatch(suffix):
            raise UsageError(f"{text!r} is no run id; give the id, or at least its last {SHORTEST_SUFFIX} hex digits")
        found = [str(row["id"]) for row in self.raw("run_ids_by_suffix", suffix=suffix)]
        if not found:
            raise NotFoundError(f"no run has the id {text!r}", hint="`freshline runs` lists them")
        if len(found) > 1:
            raise UsageError(f"several runs end with {text!r}: {', '.join(found)}; give more of the id")
        return found[0]

    def event(self, text: str) -> Json:
        """The event with this id or position."""
        if text.isdecimal():
            rows = self.raw("event_by_position", position=int(text))
        else:
            wanted = uuid(text, "an event's id or position")
            # The log has no index by id. An id begins with the time at which it was made, which is nearly the event's.
            rows = self.raw("event_near", id=wanted, made=wanted.int >> 80) or self.raw("event_by_id", id=wanted)
        if not rows:
            raise NotFoundError(f"no event has the id or position {text!r}", hint="`freshline events` lists them")
        return rows[0]

    def decision_id(self, text: str) -> UUID:
        """The id of a stored decision."""
        wanted = uuid(text, "a decision's id")
        if not self.raw("decision_by_id", id=wanted):
            raise NotFoundError(f"no decision has the id {text!r}", hint="`freshline decisions` lists them")
        return wanted


def plain(value: Any) -> Any:
    """A column as JSON data."""
    if isinstance(value, datetime):
        return iso(value)
    return str(value) if isinstance(value, UUID) else value


def unknown(kind: str, name: str, known: Iterable[str]) -> NotFoundError:
    """The error for a name that does not exist, with the nearest ones that do."""
    names = sorted(set(known))
    other = "`freshline status` lists what there is" if names else "nothing is applied yet; `freshline apply` does that"
    return NotFoundError(f"there is no {kind} {name!r}", hint=did_you_mean(name, names, most=3) or other)


def uuid(text: str, what: str) -> UUID:
    """The id that a user gave; `what` names it if it is none."""
    try:
        return UUID(text)
    except ValueError:
        raise UsageError(f"{text!r} is not {what}") from None
