"""Many events at once for real materializers: from the commit of the reports to the last decision."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench import baseline
from bench.baseline import Rows
from bench.server import IDLE, Server, listening, materializers, opened
from freshline.model.enums import EventType
from freshline.store.db.ids import new_id
from freshline.store.runs import publish
from freshline.store.runs.events import asset_event, produced_data
from freshline.store.store import Store

WARM = 20  # sources that are reported before the clock starts
CHUNK = 10_000  # rows per transaction: large, so that processing does not start before all are written
RUNS = "SELECT count(*) FROM decisions WHERE outcome = 'run' AND at >= %s"
WORKFLOWS = "SELECT count(DISTINCT workflow_id) FROM decisions WHERE outcome = 'run' AND at >= %s"


@dataclass(frozen=True, slots=True)
class Load:
    """Duration of one round of events, and the rows it wrote."""

    seconds: float
    rows: Sequence[Rows]
    doubles: int


def decide_all(server: Server, template: str, sources: Sequence[str], *, count: int = 1) -> Load:
    """Report all sources at once on a copy of the template; `count` materializers consume the inbox and decide."""
    with (
        server.copy(template) as url,
        materializers(server, url, count),
        opened(url) as store,
        listening(url) as listener,
    ):
        report_all(store, sources[:WARM], "warm")
        store.database.notify("events")
        listener.until("runs", IDLE)
        since = baseline.now(url)
        report_all(store, sources[WARM:], "v2")
        began = time.perf_counter()
        store.database.notify("events")
        ended = listener.until("runs", IDLE)
        rows = [one for one in baseline.written(url, since) if one.table not in {"snapshots", "heads"}]
        runs, workflows = int(listener.value(RUNS, since)), int(listener.value(WORKFLOWS, since))
        assert workflows == len(sources) - WARM, f"{len(sources) - WARM} events led to runs of {workflows} workflows"
        return Load(ended - began, _without_reports(rows), runs - workflows)


def write_again(server: Server, template: str, rows: Sequence[Rows]) -> float:
    """Write the same rows plainly on a copy of the same template, and return the seconds."""
    with server.copy(template) as url:
        return baseline.write(url, rows)


def report_all(store: Store, assets: Sequence[str], version: str) -> None:
    """Write the rows of all reports in a few transactions, without notifications."""
    for first in range(0, len(assets), CHUNK):
        _report(store, assets[first : first + CHUNK], version)


def _report(store: Store, assets: Sequence[str], version: str) -> None:
    with store.database.transaction("report") as connection:
        query = "SELECT asset_id, last_sequence, freshline_now()::text AS now FROM heads WHERE asset_id = ANY (%s)"
        heads = connection.execute(query, [list(assets)]).fetchall()
        published = []
        for head in heads:
            row = {
                "asset_id": head["asset_id"],
                "partition_key": "",
                "sequence": head["last_sequence"] + 1,
                "data_version": version,
                "changed": True,
                "late": False,
                "produced_at": head["now"],
                "event_id": new_id(),
            }
            data = produced_data(row, None, None, None)
            event = asset_event(row["event_id"], EventType.ASSET_PRODUCED, data, "changed")
            published.append(publish.Published(row, event))
        publish.append(connection, published)


def _without_reports(rows: Sequence[Rows]) -> list[Rows]:
    """Drop the events of reports: they are written before the clock starts, so the baseline must not write them."""
    return [
        Rows(one.table, one.columns, [row for row in one.rows if "asset.produced" not in row])
        if one.table == "events"
        else one
        for one in rows
    ]
