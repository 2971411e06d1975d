"""Consumes the stream `freshline:events:in`, on which outside producers report changes of source assets.

A message is acknowledged after its report is committed, so it may be handled twice; its key makes the repetition
harmless. A message that cannot be understood goes to `freshline:events:dead` with the reason.
"""

from __future__ import annotations

import time
from collections import Counter

import psycopg
import structlog

from freshline.counters import count
from freshline.errors import BusError, DatabaseError, FreshlineError, UsageError
from freshline.redis_bus import message
from freshline.redis_bus.connection import RedisConnection
from freshline.redis_bus.inbound import Entry, InboundStream
from freshline.services.service import Service
from freshline.store.operations.audit import Actor, acting
from freshline.store.store import Store

log = structlog.get_logger("freshline.services")
BATCH = 100
WAIT_MS = 500
MAX_TURN_S = 2.0
MAX_TRIES = 5
REDIS = Actor("redis")


class RedisConsumer(Service):
    """Any number may run; one at a time handles messages. `wait_ms`: how long a round waits for a message."""

    name = "intake"

    def __init__(self, store: Store, bus: RedisConnection, *, wait_ms: int = WAIT_MS) -> None:
        super().__init__(store)
        self._inbound = InboundStream(bus, dead_length=store.settings.bus_dead_length)
        self._wait_ms = min(wait_ms, store.settings.bus_timeout_ms // 2)  # below the timeout of a reply
        self._tries: Counter[str] = Counter()

    def run_once(self) -> bool:
        """Handle one batch. Return True to start the next round at once: Redis does the waiting."""
        if not self._inbound.ready:
            return False
        try:
            entries = self._inbound.next(BATCH, self._wait_ms)
            return not entries or self._handle_all(entries)
        except BusError:
            return False

    def _handle_all(self, entries: list[Entry]) -> bool:
        """Handle the entries in order, until the turn ends."""
        until = time.monotonic() + MAX_TURN_S
        with self.store.events.intake_lock() as acquired:
            if not acquired:
                return False
            for entry in entries:
                self._handle(entry)
                if time.monotonic() > until:
                    break
        return True

    def _handle(self, entry: Entry) -> None:
        stream_id, fields = entry
        if not fields:
            self._inbound.done(stream_id)  # it was deleted after it was delivered
            return
        try:
            duplicate = self._report(stream_id, entry)
        except (BusError, DatabaseError):
            raise
        except FreshlineError as error:
            self._refuse(entry, error.code, str(error))
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            self._refuse(entry, UsageError.code, str(error).strip())
        except psycopg.Error:
            raise  # a failure of the database, not of the message
        except Exception as error:
            # A bug; it must not block the messages behind it forever.
            self._tries[stream_id] += 1
            if self._tries[stream_id] < MAX_TRIES:
                raise
            self._refuse(entry, "unexpected", f"{type(error).__name__}: {error}")
        else:
            self._inbound.done(stream_id)
            self._tries.pop(stream_id, None)
            count("messages_taken", kind="duplicate" if duplicate else "reported")

    def _report(self, stream_id: str, entry: Entry) -> bool:
        found = message.read(stream_id, entry[1])
        with acting(REDIS):
            result = self.store.operations.report(
                found.asset_id, version=found.version, key=found.key, sequence=found.sequence, payload=found.payload
            )
        return bool(result["duplicate"])

    def _refuse(self, entry: Entry, code: str, reason: str) -> None:
        self._inbound.refuse(entry, code, reason[:2000])
        self._tries.pop(entry[0], None)
        count("messages_taken", kind="refused")
        log.warning("message_refused", message=entry[0], code=code, reason=reason[:500])
