"""Readiness of an installation: the database responds, its schema fits, and changes are processed in time.

Used by `/readyz` and by `freshline doctor --ready`. The checks are fast, for probes every few seconds; `freshline
doctor` finds the cause.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import psycopg

from freshline.duration import in_words
from freshline.errors import DatabaseError, SchemaError
from freshline.store.read.history import MAX_LIMIT

if TYPE_CHECKING:
    from freshline.store.store import Store


class ReadinessDocument(TypedDict):
    """A readiness check as JSON."""

    name: str
    ok: bool
    detail: str | None


@dataclass(frozen=True, slots=True)
class Readiness:
    """The result of one check. `detail` says what is wrong, without secrets: `/readyz` needs no token."""

    name: str
    ok: bool
    detail: str | None = None

    def as_json(self) -> ReadinessDocument:
        """Return an entry of `checks`."""
        return {"name": self.name, "ok": self.ok, "detail": self.detail}


def checks(store: Store) -> list[Readiness]:
    """Run the checks up to the first that fails; the others depend on it."""
    try:
        store.require_schema()
        waited = store.reader.waiting()
    except SchemaError:
        return [Readiness("database", ok=True), _failed("schema", "its schema does not fit; see `freshline db status`")]
    except (DatabaseError, psycopg.Error):
        return [_failed("database", "the database cannot be used; see the log")]
    return [
        Readiness("database", ok=True),
        Readiness("schema", ok=True),
        _inbox(waited, store.settings.ready_lag_ms),
    ]


def presence(store: Store, kind: str) -> Readiness:
    """Check for a recent heartbeat of a process of this kind on this host."""
    host = socket.gethostname()
    if any(one["live"] and (one["kind"], one["host"]) == (kind, host) for one in store.reader.workers(MAX_LIMIT)):
        return Readiness(kind, ok=True)
    return _failed(kind, f"no {kind} on {host} announced itself lately; `freshline workers` lists those that did")


def _inbox(waited: float | None, most_ms: int) -> Readiness:
    if waited is None or most_ms == 0 or waited * 1000 <= most_ms:
        return Readiness("absorber", ok=True)
    detail = (
        f"the oldest change has waited for {in_words(waited)} to be processed; allowed are {in_words(most_ms / 1000)}"
    )
    return _failed("absorber", detail)


def _failed(name: str, detail: str) -> Readiness:
    return Readiness(name, ok=False, detail=detail)
