"""Sessions on a Spark Connect server, which others use too.

We choose the id of a session, so that the worker that takes a run over can close it (docs/semantics.md#R12.1).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from pyspark.sql import SparkSession

RETRY_S = 20.0  # enough for a server to restart; after that the run is handed back
PROBE_S = 3.0
MAX_PAUSE_MS = 2_000
FIRST_PAUSE_MS = 100
USER = "freshline"  # sessions belong to a user, so all workers use the same one


@dataclass(frozen=True, slots=True)
class Remote:
    """The address of a Spark Connect server, without its token, and the token."""

    url: str
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str, token: str | None = None) -> Remote:
        """Take the token out of an address; `token` overrides it."""
        place, _, rest = url.partition(";")
        options = dict(one.partition("=")[::2] for one in rest.split(";") if one)
        inside = options.pop("token", None)
        options.setdefault("user_id", USER)
        shown = ";".join(f"{name}={value}" for name, value in options.items())
        return cls(f"{place.rstrip('/')}/;{shown}", token or (unquote(inside) if inside else None))

    @property
    def place(self) -> str:
        """The address without options, which may be shown."""
        return self.url.partition("/;")[0]

    def open(self, session_id: str | None = None) -> SparkSession:
        """Return a new session, or the one with this id."""
        # The public builder refuses a second session with another id.
        from pyspark.sql.connect.session import SparkSession as RemoteSession  # noqa: PLC0415 - needs gRPC

        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # functions, columns and observations are Connect's from now on
        secret = f";token={quote(self.token, safe='')}" if self.token else ""
        chosen = f";session_id={session_id}" if session_id else ""
        session = RemoteSession.builder.config("spark.remote", f"{self.url}{secret}{chosen}").create()
        limit_retries(session, RETRY_S)
        return session

    def end(self, sessions: Iterable[str]) -> None:
        """Cancel and close these sessions; ignore those that no longer exist."""
        for session_id in sessions:
            with contextlib.suppress(Exception):  # the step itself reports a server that does not answer
                orphan = self.open(session_id)
                limit_retries(orphan, PROBE_S)
                orphan.interruptAll()
                orphan.stop()

    def hide(self, text: str) -> str:
        """Return `text` without the token."""
        for secret in (self.token, quote(self.token, safe="") if self.token else None):
            text = text.replace(secret, "***") if secret else text
        return text


def limit_retries(session: SparkSession, seconds: float) -> None:
    """Set how long requests are retried when the server does not answer; the default is ten minutes."""
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 - needs gRPC

    pauses, waited = 1, float(FIRST_PAUSE_MS)
    while waited < seconds * 1000:
        waited += min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2**pauses)
        pauses += 1
    policy = DefaultPolicy(
        max_retries=pauses, initial_backoff=FIRST_PAUSE_MS, backoff_multiplier=2, max_backoff=MAX_PAUSE_MS
    )
    session.client.set_retry_policies([policy])


def answers(session: Any) -> bool:
    """Return whether the server answers and still has this session."""
    try:
        limit_retries(session, PROBE_S)
        session.conf.get("spark.sql.session.timeZone")  # answered by the server, not from a cache
    except Exception:  # noqa: BLE001 - any failure to answer
        return False
    return True
