"""The connection to Redis: a timeout on every call, backoff, one log line per outage, no password in any text."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from freshline.errors import BusError, UsageError
from freshline.model.json import Json

log = structlog.get_logger("freshline.bus")
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
TROUBLE_EXPIRES_S = 30.0
HEALTH_S = 10
CONNECTIONS = 16


class RedisConnection:
    """A process's connection to one Redis server. Threads share it; each purpose has its own `GuardedClient`."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self.address = redacted(url)
        self._password = unquote(urlsplit(url).password or "")
        self._lock = threading.Lock()
        self._troubles: dict[str, tuple[BusError, float]] = {}
        self.client = self._client(url, timeout_s)

    @property
    def trouble(self) -> str | None:
        """The current failures in one sentence; None if the last attempt of every purpose succeeded."""
        self._settle()
        with self._lock:
            troubles = [trouble for trouble, _ in self._troubles.values()]
        away = [str(one) for one in troubles if one.unreachable]
        return "; ".join([*away[:1], *(str(one) for one in troubles if not one.unreachable)]) or None

    def guarded(self, purpose: str, *, reports_trouble: bool = True) -> GuardedClient:
        """Return a client for one purpose, which fails and recovers independently of the others.

        Redis may refuse one command and accept another, so each command that can be refused alone needs its own
        client. A caller that may not retry passes `reports_trouble=False`: no later success would clear the report.
        """
        return GuardedClient(self, purpose, reports_trouble=reports_trouble)

    def close(self) -> None:
        """Close the idle connections."""
        self.client.connection_pool.disconnect(inuse_connections=False)

    def note_trouble(self, purpose: str, trouble: BusError) -> None:
        """Record a failure; only the first one of an outage is logged."""
        with self._lock:
            begins = self._begins(purpose, trouble)
            self._troubles[purpose] = trouble, time.monotonic()
        if begins:
            log.warning("bus_trouble", error=str(trouble), bus=self.address)

    def note_success(self, purpose: str) -> None:
        """Clear the failure of this purpose; the end of the last failure is logged."""
        self._settle(purpose)

    def _begins(self, purpose: str, trouble: BusError) -> bool:
        """Return whether this failure is new. An unreachable server is one outage for all purposes."""
        if trouble.unreachable:
            return not any(known.unreachable for known, _ in self._troubles.values())
        known = self._troubles.get(purpose)
        return known is None or known[0].unreachable

    def _settle(self, works: str | None = None) -> None:
        """Drop the failure of `works`, and failures that were not retried: another process may do that work now."""
        since = time.monotonic() - TROUBLE_EXPIRES_S
        with self._lock:
            if not self._troubles:
                return
            self._troubles = {
                one: trouble for one, trouble in self._troubles.items() if one != works and trouble[1] > since
            }
            over = not self._troubles
        if over:
            log.info("bus_recovered", bus=self.address)

    def trouble_of(self, purpose: str, error: Exception) -> BusError:
        """Convert an error to a `BusError` without passwords or event data."""
        # For a pipeline, redis-py's text starts with the command, which contains the event's data.
        text = str(error).rpartition("of pipeline caused error:")[2].strip()
        text = (text.splitlines() or [""])[0] or type(error).__name__
        if self._password:
            text = text.replace(self._password, "***")
        if isinstance(error, redis.ConnectionError | redis.TimeoutError | OSError):
            return BusError(f"the event bus {self.address} is unreachable: {text}", unreachable=True)
        return BusError(f"the event bus {self.address} refuses {purpose}: {text}")

    def _client(self, url: str, timeout_s: float) -> Any:
        try:
            client = redis.Redis.from_url(url, **_options(url, timeout_s))
            # This does not connect. It makes redis-py reject an unknown option now and not at each attempt.
            client.connection_pool.make_connection()
        except (TypeError, ValueError, redis.RedisError):
            raise UsageError(
                f"FRESHLINE_EVENT_BUS ({self.address}) has an option, or a value of one, that redis-py does not take; "
                "leave out what follows the question mark"
            ) from None
        return client


class GuardedClient:
    """The Redis client for one purpose, with its own backoff. Not thread-safe."""

    def __init__(self, bus: RedisConnection, purpose: str, *, reports_trouble: bool) -> None:
        self._bus = bus
        self._purpose = purpose
        self._reports_trouble = reports_trouble
        self._pause_s = 0.0
        self._next = 0.0

    @property
    def ready(self) -> bool:
        """Whether the backoff, which doubles with each failure, is over."""
        return time.monotonic() >= self._next

    @contextmanager
    def use(self) -> Iterator[Any]:
        """Yield the client. Any exception in the block becomes a `BusError`, so the block must only call Redis."""
        try:
            yield self._bus.client
        except Exception as error:  # noqa: BLE001 - a server that answers with nonsense can cause any exception
            self._pause_s = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, self._pause_s * 2))
            # All processes lose the server at the same moment; the jitter keeps them from returning at the same one.
            self._next = time.monotonic() + self._pause_s * random.uniform(0.5, 1)  # noqa: S311
            trouble = self._bus.trouble_of(self._purpose, error)
            if self._reports_trouble:
                self._bus.note_trouble(self._purpose, trouble)
            raise trouble from None
        else:
            self._pause_s = self._next = 0.0
            self._bus.note_success(self._purpose)


def redacted(url: str) -> str:
    """Return the URL without user, password and options."""
    parts = urlsplit(url)
    where = parts.path if parts.scheme == "unix" else parts.netloc.rpartition("@")[2] + parts.path
    return f"{parts.scheme}://{where}"


def _options(url: str, timeout_s: float) -> Json:
    options: Json = {
        "socket_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),  # `GuardedClient` backs off without blocking
        "protocol": 2,  # the shape of replies must not depend on the server's version
        "max_connections": CONNECTIONS,
        "health_check_interval": HEALTH_S,
        "client_name": "freshline",
    }
    if not url.startswith("unix:"):
        options |= {"socket_connect_timeout": timeout_s, "socket_keepalive": True}
    return options
