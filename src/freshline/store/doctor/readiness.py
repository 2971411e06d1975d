"""Whether an installation is ready for work: the database answers, its schema fits, and changes are taken up in time.

`/readyz` tells it over HTTP, `freshline doctor --ready` where there is none. It is a quick look, for those who ask
every few seconds; what exactly is wrong is for the doctor.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from freshline.definitions.duration import in_words
from freshline.errors import DatabaseError, SchemaError
from freshline.store.read.reader import MAX_LIMIT

if TYPE_CHECKING:
    from freshline.store.store import Store


@dataclass(frozen=True, slots=True)
class Readiness:
    """One check. `detail`: what is wrong, in words that anybody may read."""

    name: str
    ok: bool
    detail: str | None = None

    def as_json(self) -> dict[str, Any]:
        """One entry of `checks`."""
        return {"name": self.name, "ok": self.ok, "detail": self.detail}


def checks(store: Store) -> list[Readiness]:
    """The checks up to the first that fails: those behind it could not be made."""
    try:
        store.require_schema()
        waited = store.reader.waiting()
    except SchemaError:
        return [Readiness("database", ok=True), _failed("schema", "its schema does not fit; see `freshline db status`")]
    except (DatabaseError, psycopg.Error):
        return [_failed("database", "the database cannot be used; the log tells more")]
    return [
        Readiness("database", ok=True),
        Readiness("schema", ok=True),
        _absorber(waited, store.settings.ready_lag_ms),
    ]


def presence(store: Store, kind: str) -> Readiness:
    """Whether a process of this kind and of this host announced itself lately."""
    host = socket.gethostname()
    if any(one["live"] and (one["kind"], one["host"]) == (kind, host) for one in store.reader.workers(MAX_LIMIT)):
        return Readiness(kind, ok=True)
    return _failed(kind, f"no {kind} on {host} announced itself lately; `freshline workers` lists those that did")


def _absorber(waited: float | None, most_ms: int) -> Readiness:
    if waited is None or most_ms == 0 or waited * 1000 <= most_ms:
        return Readiness("absorber", ok=True)
    told = (
        f"the oldest change has waited for {in_words(waited)} to be looked at; allowed are {in_words(most_ms / 1000)}"
    )
    return _failed("absorber", told)


def _failed(name: str, detail: str) -> Readiness:
    return Readiness(name, ok=False, detail=detail)
