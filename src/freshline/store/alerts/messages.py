"""Messages of alerts: claim those that are due, record the results.

Nothing is sent inside a transaction. A message is claimed for the time of a lease; the claim number is a fencing
token. A sender that dies leaves a lease that ends, and the message is sent again: at least once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg.types.json import Jsonb

from freshline.alerts.message import Facts, Frame
from freshline.alerts.records import Incident, MessageKind
from freshline.counters import count
from freshline.graph import Graph
from freshline.model.alerts import AlertTarget
from freshline.settings import Settings
from freshline.store.alerts.evaluation import incident
from freshline.store.apply.stored_graph import GraphCache
from freshline.store.db.database import Connection, Database, Row
from freshline.store.db.queries import load

SQL = load("alerts")
APPLY = load("apply")
BATCH = 4  # a sender that dies holds back at most these, until their lease ends
BASE_MS = 5_000
LONGEST_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Letter:
    """A claimed message to one address. `facts` have no explanation yet."""

    number: int
    claim: int
    kind: MessageKind
    frame: Frame
    target: AlertTarget
    now: datetime
    facts: tuple[Facts, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """How a message went: `trouble` is None on success; a `final` failure is not retried."""

    letter: Letter
    title: str | None = None
    trouble: str | None = None
    final: bool = False


class AlertMessages:
    """Transactions of the alert sender."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._graph = GraphCache()

    def time_left(self) -> float | None:
        """Return the seconds until a message may be sent; None if none waits."""
        with self._database.reading() as connection:
            row = connection.execute(SQL["waiting_left"]).fetchone()
        return None if row is None or row["seconds"] is None else float(row["seconds"])

    def claim(self, *, lease_ms: int) -> list[Letter]:
        """Claim the messages that are due, the oldest of each address, for the time of a lease."""
        with self._database.transaction("claim_alerts") as connection:
            rows = connection.execute(SQL["claim_messages"], {"batch": BATCH, "lease_ms": lease_ms}).fetchall()
            if not rows:
                return []
            ids = sorted({one for row in rows for one in row["incident_ids"]})
            found = {row["id"]: incident(row) for row in connection.execute(SQL["incidents_by_id"], {"ids": ids})}
            graph = self._read_graph(connection)
            return [_letter(row, found, graph) for row in sorted(rows, key=lambda row: int(row["number"]))]

    def record(self, results: Sequence[Result]) -> int:
        """Record results. Return how many count; a message that was claimed again meanwhile is not changed."""
        if not results:
            return 0
        settings = self._settings
        values = {
            "results": Jsonb([_result(one) for one in results]),
            "attempts": settings.webhook_attempts,
            "age": timedelta(milliseconds=settings.webhook_max_age_ms),
            "base_ms": BASE_MS,
            "longest_ms": LONGEST_MS,
        }
        with self._database.transaction("record_alerts") as connection:
            rows = connection.execute(SQL["record_messages"], values).fetchall()
        for row in rows:
            count("alert_messages", result="sent" if row["sent"] else "dead" if row["dead"] else "failed")
        return len(rows)

    def _read_graph(self, connection: Connection) -> Graph:
        row = connection.execute(APPLY["epoch"]).fetchone()
        return self._graph.read(connection, row["epoch"] if row else None)


def prune(connection: Connection, days: int) -> None:
    """Delete old incidents and messages."""
    connection.execute(SQL["prune_alerts"], {"days": days})


def downstream(graph: Graph, one: Incident) -> int:
    """Return how many assets are made from the root of an incident, directly or not."""
    outputs = graph.outputs()
    root = one.root
    if root.type == "backfill":
        return 0  # nothing waits for a proposal
    if root.type == "asset":
        begin = [root.name]
    else:
        ids = {number for number, slug in graph.slugs.items() if slug == root.name}
        begin = [asset_id for asset_id, maker in outputs.items() if maker in ids]
    below = set(graph.descendants(*begin))
    return sum(maker in below for maker in outputs.values())


def _letter(row: Row, incidents: dict[str, Incident], graph: Graph) -> Letter:
    found = [incidents[one] for one in row["incident_ids"] if one in incidents]
    return Letter(
        number=row["number"],
        claim=row["claim"],
        kind=MessageKind(row["kind"]),
        frame=Frame(row["rule"], row["title"], row["body"]),
        target=AlertTarget(**row["target"]),
        now=row["now"],
        facts=tuple(Facts(one, downstream(graph, one) if one.open else 0) for one in found),
    )


def _result(one: Result) -> Row:
    letter = one.letter
    return {
        "number": letter.number,
        "claim": letter.claim,
        "title": one.title,
        "trouble": one.trouble,
        "final": one.final,
    }
