"""Spark Connect: sessions on a server that others use too.

A session has an id that we choose, so that whoever takes a run over can end what it still computes (R12.1).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from pyspark.sql import SparkSession

PATIENCE_S = 20.0  # a server that restarts is back, or the run goes back
PROBE_S = 3.0
LONGEST_PAUSE_MS = 2_000
FIRST_PAUSE_MS = 100
USER = "freshline"  # sessions belong to a user; all workers must be the same one


@dataclass(frozen=True, slots=True)
class Remote:
    """The address of a Spark Connect server, without its token, and the token."""

    url: str
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str, token: str | None = None) -> Remote:
        """Take the token out of an address; a token of its own wins."""
        place, _, rest = url.partition(";")
        options = dict(one.partition("=")[::2] for one in rest.split(";") if one)
        inside = options.pop("token", None)
        options.setdefault("user_id", USER)
        shown = ";".join(f"{name}={value}" for name, value in options.items())
        return cls(f"{place.rstrip('/')}/;{shown}", token or (unquote(inside) if inside else None))

    @property
    def place(self) -> str:
        """What may be shown."""
        return self.url.partition("/;")[0]

    def open(self, session_id: str | None = None) -> SparkSession:
        """A new session, or the one with this id."""
        # The builder of the public API refuses a second session of another id, this one does not.
        from pyspark.sql.connect.session import SparkSession as RemoteSession  # noqa: PLC0415 - needs gRPC

        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # functions, columns and observations are Connect's from now on
        secret = f";token={quote(self.token, safe='')}" if self.token else ""
        chosen = f";session_id={session_id}" if session_id else ""
        session = RemoteSession.builder.config("spark.remote", f"{self.url}{secret}{chosen}").create()
        be_patient(session, PATIENCE_S)
        return session

    def end(self, sessions: Iterable[str]) -> None:
        """End these sessions and all that they compute; what is gone already is fine."""
        for session_id in sessions:
            with contextlib.suppress(Exception):  # a server that does not answer is told by the step itself
                orphan = self.open(session_id)
                be_patient(orphan, PROBE_S)
                orphan.interruptAll()
                orphan.stop()

    def hide(self, text: str) -> str:
        """`text` without the token."""
        for secret in (self.token, quote(self.token, safe="") if self.token else None):
            text = text.replace(secret, "***") if secret else text
        return text


def be_patient(session: SparkSession, seconds: float) -> None:
    """How long a request waits for a server that does not answer; by default it is ten minutes."""
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 - needs gRPC

    pauses, waited = 1, float(FIRST_PAUSE_MS)
    while waited < seconds * 1000:
        waited += min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2**pauses)
        pauses += 1
    policy = DefaultPolicy(
        max_retries=pauses, initial_backoff=FIRST_PAUSE_MS, backoff_multiplier=2, max_backoff=LONGEST_PAUSE_MS
    )
    session.client.set_retry_policies([policy])


def answers(session: Any) -> bool:
    """Whether the server still is the one that has this session."""
    try:
        be_patient(session, PROBE_S)
        session.conf.get("spark.sql.session.timeZone")  # a question that is not answered from memory
    except Exception:  # noqa: BLE001 - whatever keeps it from answering
        return False
    return True
