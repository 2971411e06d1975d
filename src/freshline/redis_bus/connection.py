"""The connection to Redis: timeouts on everything, backoff, one log line per outage, and no password in any text."""

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

log = structlog.get_logger("freshline.bus")
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
FORGET_S = 30.0
HEALTH_S = 10
CONNECTIONS = 16


class Bus:
    """A process's way to one Redis server. Threads share it; each use of it has a `Line` of its own."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self.address = redacted(url)
        self._password = unquote(urlsplit(url).password or "")
        self._lock = threading.Lock()
        self._troubles: dict[str, tuple[BusError, float]] = {}
        self.client = self._client(url, timeout_s)

    @property
    def trouble(self) -> str | None:
        """What does not work now, in a sentence; None if all that was tried last did work."""
        self._settle()
        with self._lock:
            troubles = [trouble for trouble, _ in self._troubles.values()]
        away = [str(one) for one in troubles if one.unreachable]
        return "; ".join([*away[:1], *(str(one) for one in troubles if not one.unreachable)]) or None

    def line(self, purpose: str, *, told: bool = True) -> Line:
        """A use of the bus that fails and recovers by itself: the inbound stream may be broken while events flow.

        What works on one line says nothing about another, so each command that may be refused alone has its own. Who is
        not sure to try again leaves the telling to others (`told`), as nobody would notice that it works again.
        """
        return Line(self, purpose, told=told)

    def close(self) -> None:
        """Give back the connections that nobody uses."""
        self.client.connection_pool.disconnect(inuse_connections=False)

    def note_trouble(self, purpose: str, trouble: BusError) -> None:
        """Remember what went wrong; only the beginning is logged."""
        with self._lock:
            begins = self._begins(purpose, trouble)
            self._troubles[purpose] = trouble, time.monotonic()
        if begins:
            log.warning("bus_trouble", error=str(trouble), bus=self.address)

    def note_success(self, purpose: str) -> None:
        """This use of the bus works; the end of the last trouble is logged."""
        self._settle(purpose)

    def _begins(self, purpose: str, trouble: BusError) -> bool:
        """Whoever notices first that the server is away tells it for all."""
        if trouble.unreachable:
            return not any(known.unreachable for known, _ in self._troubles.values())
        known = self._troubles.get(purpose)
        return known is None or known[0].unreachable

    def _settle(self, works: str | None = None) -> None:
        """Forget the trouble of what works, and of what nobody tried again: another process did it meanwhile."""
        since = time.monotonic() - FORGET_S
        with self._lock:
            if not self._troubles:
                return
            self._troubles = {one: told for one, told in self._troubles.items() if one != works and told[1] > since}
            over = not self._troubles
        if over:
            log.info("bus_recovered", bus=self.address)

    def trouble_of(self, purpose: str, error: Exception) -> BusError:
        """The error in words, without any password or data."""
        # redis-py tells the command of a pipeline first, and with it the event's data.
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
            # It does not connect; an option that redis-py does not know shows now and not at every try.
            client.connection_pool.make_connection()
        except (TypeError, ValueError, redis.RedisError):
            raise UsageError(
                f"FRESHLINE_EVENT_BUS ({self.address}) has an option, or a value of one, that redis-py does not take; "
                "leave out what follows the question mark"
            ) from None
        return client


class Line:
    """One use of the bus, with a backoff of its own. Not for several threads at once."""

    def __init__(self, bus: Bus, purpose: str, *, told: bool) -> None:
        self._bus = bus
        self._purpose = purpose
        self._told = told
        self._pause_s = 0.0
        self._next = 0.0

    @property
    def ready(self) -> bool:
        """Whether it is time to try; after a failure not before a pause that doubles."""
        return time.monotonic() >= self._next

    @contextmanager
    def used(self) -> Iterator[Any]:
        """The client. Whatever goes wrong in the block, which is to hold nothing else, becomes a `BusError`."""
        try:
            yield self._bus.client
        except Exception as error:  # noqa: BLE001 - a server that answers with nonsense raises anything
            self._pause_s = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, self._pause_s * 2))
            # All processes lose the server at one moment; they need not come back at one.
            self._next = time.monotonic() + self._pause_s * random.uniform(0.5, 1)  # noqa: S311
            trouble = self._bus.trouble_of(self._purpose, error)
            if self._told:
                self._bus.note_trouble(self._purpose, trouble)
            raise trouble from None
        else:
            self._pause_s = self._next = 0.0
            self._bus.note_success(self._purpose)


def redacted(url: str) -> str:
    """The address without user, password and options."""
    parts = urlsplit(url)
    where = parts.path if parts.scheme == "unix" else parts.netloc.rpartition("@")[2] + parts.path
    return f"{parts.scheme}://{where}"


def _options(url: str, timeout_s: float) -> dict[str, Any]:
    options: dict[str, Any] = {
        "socket_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),  # ours waits without blocking anybody
        "protocol": 2,  # the shape of answers must not depend on the server's version
        "max_connections": CONNECTIONS,
        "health_check_interval": HEALTH_S,
        "client_name": "freshline",
    }
    if not url.startswith("unix:"):
        options |= {"socket_connect_timeout": timeout_s, "socket_keepalive": True}
    return options
