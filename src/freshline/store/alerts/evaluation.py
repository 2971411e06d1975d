"""The transaction `evaluate_alerts`: reads what is wrong, and writes incidents and messages.

It compares states, not events, so nothing can be lost: a restart, a rule that was added later or a repaired database
lead to the same incidents. Its cost is what is wrong, and only if that has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from psycopg.types.json import Jsonb

from freshline.alerts import causes, schedule
from freshline.alerts.evaluate import evaluate
from freshline.alerts.records import Closing, Incident, Node, Planned, Rule
from freshline.counters import count
from freshline.model.alerts import AlertKind
from freshline.model.json import Json
from freshline.store.alerts.rules import policy_of
from freshline.store.alerts.troubles import read_reported, read_troubles
from freshline.store.apply.stored_graph import GraphCache
from freshline.store.db.database import Connection, Database, Row
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load

SQL = load("alerts")
LONGEST_PAUSE = timedelta(minutes=1)


class AlertEvaluation:
    """Turns what is wrong into incidents and messages."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._graph = GraphCache()

    def time_left(self) -> float | None:
        """Return the seconds until an evaluation is due; None without rules."""
        with self._database.reading() as connection:
            row = connection.execute(SQL["time_left"]).fetchone()
        return None if row is None or row["seconds"] is None else float(row["seconds"])

    def run(self) -> bool:
        """Evaluate all rules, if it is due and no other process does it. Return whether it was done."""
        with self._database.transaction("evaluate_alerts") as connection:
            begun = connection.execute(SQL["begin_evaluation"]).fetchone()
            if begun is None or not begun["due"]:
                return False
            opened, closed = self._evaluate(connection, begun["now"], begun)
        count("alert_incidents", opened, change="opened")
        count("alert_incidents", closed, change="closed")
        return True

    def _evaluate(self, connection: Connection, now: datetime, begun: Row) -> tuple[int, int]:
        rules = [_rule(row) for row in connection.execute(SQL["rules"], {"since": now - schedule.WINDOW})]
        before = {row["id"]: incident(row) for row in connection.execute(SQL["current_incidents"])}
        troubles = read_troubles(connection) if rules else []
        graph = self._graph.read(connection, begun["epoch"])
        sources = sorted(causes.sources_above(troubles, graph))
        reported = read_reported(connection, sources)
        found = evaluate(rules, list(before.values()), troubles, graph, reported=reported, now=now, new_id=new_id)
        _write(connection, found.incidents, found.messages, found.digested, now)
        next_at = min(now + LONGEST_PAUSE, found.next_at or now + LONGEST_PAUSE)
        connection.execute(SQL["end_evaluation"], {"digest": begun["digest"], "now": now, "next_at": next_at})
        opened = sum(one.id not in before for one in found.incidents)
        closed = sum(not one.open and (one.id not in before or before[one.id].open) for one in found.incidents)
        return opened, closed


def incident(row: Row) -> Incident:
    """Return a stored incident."""
    known = {kind.value for kind in AlertKind}
    times = ("opened_at", "recovered_at", "closed_at", "alerted_at", "cleared_at", "done_at")
    return Incident(
        id=row["id"],
        rule_id=row["rule_id"],
        root=Node.of(row["root"]),
        kinds=frozenset(AlertKind(kind) for kind in row["kinds"] if kind in known),
        members=frozenset(row["members"]),
        assets=tuple(row["assets"]),
        affected=row["affected"],
        run_id=row["run_id"],
        error=row["error"],
        closing=Closing(row["closing"]) if row["closing"] else None,
        **{name: row[name] for name in times},
    )


def _rule(row: Row) -> Rule:
    return Rule(
        id=row["id"],
        name=row["name"],
        policy=policy_of(row["policy"]),
        project=row["project"],
        paused=row["paused"],
        digested_at=row["digested_at"],
        recent=row["recent"],
    )


def _write(
    connection: Connection,
    incidents: Sequence[Incident],
    messages: Sequence[Planned],
    digested: Sequence[str],
    now: datetime,
) -> None:
    if incidents:
        connection.execute(SQL["save_incidents"], {"incidents": Jsonb([_incident_row(one) for one in incidents])})
    if messages:
        rows = [{"rule_id": one.rule_id, "kind": one.kind, "incident_ids": list(one.incident_ids)} for one in messages]
        connection.execute(SQL["queue_messages"], {"messages": Jsonb(rows), "now": now})
    if digested:
        connection.execute(SQL["digested"], {"rules": list(digested), "now": now})


def _incident_row(one: Incident) -> Json:
    times = ("opened_at", "recovered_at", "closed_at", "alerted_at", "cleared_at", "done_at")
    moments = {name: getattr(one, name) for name in times}
    return {
        "id": one.id,
        "rule_id": one.rule_id,
        "root": one.root.key,
        "kinds": sorted(one.kinds),
        "members": sorted(one.members),
        "assets": list(one.assets),
        "affected": one.affected,
        "run_id": one.run_id,
        "error": one.error,
        "closing": one.closing,
        **{name: moment.isoformat() if moment else None for name, moment in moments.items()},
    }
