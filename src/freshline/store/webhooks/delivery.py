"""Webhook deliveries: claim a webhook with its next events, record the results.

Nothing is sent inside a transaction. The cursor of a webhook moves only when everything before it is recorded as
delivered or as a pending delivery: a crash sends again and omits nothing. The claim number is a fencing token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from psycopg.types.json import Jsonb

from freshline.counters import count
from freshline.errors import FencedError
from freshline.settings import Settings
from freshline.store.db.database import Connection, Database, Row
from freshline.store.db.queries import load

SQL = load("webhooks")
BATCH = 50
WINDOW = 1_000
# After this many consecutive failures the receiver counts as unreachable: one event at a time, with backoff.
UNREACHABLE_AFTER = 3
BASE_MS = 5_000
LONGEST_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Letter:
    """One event for one webhook. `event` is None if it is no longer kept."""

    position: int
    event_id: str
    since: datetime
    event: Row | None


@dataclass(frozen=True, slots=True)
class Batch:
    """A claimed webhook and the events to send. The batch covers all positions up to `end`."""

    webhook_id: str
    name: str
    kind: str
    url: str
    secret: bytes = field(repr=False)
    claim: int = 0
    position: int = 0
    failures: int = 0
    trouble: str | None = None
    letters: tuple[Letter, ...] = ()
    end: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a delivery: `trouble` is None on success; `final` failures are not retried."""

    letter: Letter
    trouble: str | None = None
    final: bool = False


class Deliveries:
    """Transactions of the webhook sender."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def claim(self, *, lease_ms: int) -> Batch | None:
        """Claim the next webhook with something to send, for the time of a lease. Return None if there is none.

        Events that do not match its filters are skipped at once, so the batch may be empty.
        """
        with self._database.transaction("claim_webhook") as connection:
            row = connection.execute(SQL["claim"], {"lease_ms": lease_ms}).fetchone()
            if row is None:
                return None
            batch = _batch(connection, row)
            if not batch.letters:
                _pass(connection, batch)
            return batch

    def record(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        """Record results in sending order; events without a result were not sent. A later claim fences this one."""
        failed = [_failure(one) for one in outcomes if one.trouble is not None]
        taken = [one.letter.position for one in outcomes if one.trouble is None]
        failures, worst = _in_a_row(batch.failures, outcomes)
        trouble = next((one.trouble for one in reversed(outcomes)), batch.trouble)
        with self._database.transaction("record_deliveries") as connection:
            if not connection.execute(SQL["lock_claim"], {"id": batch.webhook_id, "claim": batch.claim}).fetchone():
                raise FencedError(f"webhook '{batch.name}' was claimed by another process meanwhile")
            connection.execute(SQL["taken"], {"id": batch.webhook_id, "positions": taken})
            dead = self._refused(connection, batch, failed)
            if failures >= UNREACHABLE_AFTER:
                dead += connection.execute(SQL["outlived"], {"id": batch.webhook_id, "age": self._age}).rowcount
            if taken and worst >= UNREACHABLE_AFTER:
                connection.execute(SQL["recovered"], {"id": batch.webhook_id})
            state = {"failures": failures, "trouble": trouble, "delivered": len(taken)}
            _release(connection, batch, _reached(batch, outcomes), state)
        count("deliveries", len(taken), result="delivered")
        count("deliveries", len(failed) - dead, result="failed")
        count("deliveries", dead, result="dead")

    @property
    def _age(self) -> timedelta:
        return timedelta(milliseconds=self._settings.webhook_max_age_ms)

    def _refused(self, connection: Connection, batch: Batch, failed: Sequence[Row]) -> int:
        """Store failed deliveries. Return how many have no retries left."""
        if not failed:
            return 0
        budget = {"attempts": self._settings.webhook_attempts, "age": self._age}
        values = {"id": batch.webhook_id, "failed": Jsonb(failed), "base_ms": BASE_MS, "longest_ms": LONGEST_MS}
        return sum(row["dead"] for row in connection.execute(SQL["refused"], {**values, **budget}))


def prune(connection: Connection, days: int) -> None:
    """Delete old dead letters."""
    connection.execute(SQL["prune_deliveries"], {"days": days})


def _batch(connection: Connection, row: Row) -> Batch:
    """Return pending deliveries first, then new events. An unreachable receiver gets one event, new if possible.

    Otherwise only events that it rejects for ever would be tried, and it would stay unreachable.
    """
    waiting = connection.execute(SQL["waiting"], {"id": row["id"], "batch": BATCH}).fetchall()
    asked = {"types": _like(row["types"]), "assets": _like(row["assets"])}
    next_ = connection.execute(SQL["following"], {"after": row["position"], "window": WINDOW, **asked}).fetchall()
    wanted = [one for one in next_ if one["wanted"]]
    taken = wanted[: BATCH - len(waiting)]
    if row["failures"] >= UNREACHABLE_AFTER:
        taken = wanted[:1]
        waiting = [] if taken else waiting[:1]
    end = row["position"] if not next_ else next_[-1]["position"]
    if len(taken) < len(wanted):
        end = taken[-1]["position"] if taken else row["position"]
    return Batch(
        webhook_id=row["id"],
        **{name: row[name] for name in ("name", "kind", "url", "secret", "claim", "position", "failures", "trouble")},
        letters=tuple(map(_letter, [*waiting, *taken])),
        end=end,
    )


def _letter(row: Row) -> Letter:
    return Letter(row["position"], row["id"], row["since"], row if row["type"] is not None else None)


def _like(patterns: Sequence[str]) -> list[str]:
    return [pattern.replace("_", r"\_").replace("*", "%") for pattern in patterns]


def _failure(one: Outcome) -> Row:
    letter = one.letter
    return {
        "position": letter.position,
        "event_id": letter.event_id,
        "since": letter.since.isoformat(),
        "trouble": one.trouble,
        "final": one.final,
    }


def _in_a_row(before: int, outcomes: Sequence[Outcome]) -> tuple[int, int]:
    """Return the consecutive failures at the end, and the longest series."""
    now = worst = before
    for one in outcomes:
        now = 0 if one.trouble is None else now + 1
        worst = max(worst, now)
    return now, worst


def _reached(batch: Batch, outcomes: Sequence[Outcome]) -> int:
    """Return the position up to which every event was tried."""
    if len(outcomes) == len(batch.letters):
        return batch.end
    return max((one.letter.position for one in outcomes), default=batch.position)


def _pass(connection: Connection, batch: Batch) -> None:
    """Move the cursor. Nothing was tried, so a backoff stays."""
    connection.execute(SQL["pass"], {"id": batch.webhook_id, "position": batch.end})


def _release(connection: Connection, batch: Batch, position: int, state: Row) -> None:
    pace = {"patience": UNREACHABLE_AFTER, "base_ms": BASE_MS, "longest_ms": LONGEST_MS}
    connection.execute(SQL["release"], {"id": batch.webhook_id, "position": position, **state, **pace})
