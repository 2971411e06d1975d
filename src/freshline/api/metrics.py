"""Numbers for Prometheus: what this process did, and how the installation stands.

Labels come from small closed sets: codes, states and names of transactions. The exceptions name assets, at most
`MOST_ASSETS` of each: those that are nearest to their `maxAgeMs` or furthest beyond, and those furthest behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from freshline import counters
from freshline.api.auth import Reading
from freshline.api.workflows import Stored
from freshline.errors import UsageError
from freshline.store.read.reader import Reader

router = APIRouter(tags=["metrics"])
MOST_ASSETS = 100
# What `Reader.measures` calls it, its name here, and what it means.
GAUGES = (
    ("queued", "runs_queued", "Runs that wait for a worker."),
    ("queuedAge", "runs_queued_oldest_seconds", "How long the oldest of them has waited."),
    ("running", "runs_running", "Runs that a worker holds."),
    ("unabsorbed", "events_unabsorbed", "Events that no materializer has looked at."),
    ("unabsorbedAge", "events_unabsorbed_oldest_seconds", "How long the oldest of them has waited."),
    ("due", "considerations_due", "Workflows that are to be looked at now."),
    ("dueAge", "considerations_due_oldest_seconds", "How long the oldest of them has waited."),
    ("unstamped", "events_unstamped", "Events without a position, which outside readers do not see yet."),
    ("unstampedAge", "events_unstamped_oldest_seconds", "How long the oldest of them has waited."),
    ("timersDue", "timers_due", "Timers that are due and have not fired."),
    ("timersDueAge", "timers_due_oldest_seconds", "How long the oldest of them has waited."),
    ("unlogged", "table_versions_unlogged", "Table versions that their Delta log has not yet."),
    ("unloggedAge", "table_versions_unlogged_oldest_seconds", "How long the oldest of them has waited."),
    ("failing", "workflows_failing", "Workflows whose last automatic run failed."),
    ("breakers", "breakers_open", "Workflows whose breaker is open."),
    ("paused", "workflows_paused", "Workflows that are paused."),
    ("hooksFailing", "webhooks_failing", "Webhooks whose last delivery failed."),
    ("lettersWaiting", "webhook_letters_waiting", "Events that a webhook did not take and that are tried again."),
    ("lettersDead", "webhook_letters_dead", "Events that a webhook did not take within its budget."),
    ("avoided", "runs_avoided", "Runs that were not needed, since ever, as an input came out the same."),
)
LABELLED = (
    ("holds", "holds", "reason", "Workflows that are held, by reason."),
    ("workers", "processes", "kind", "Processes that are there, by kind."),
)

ASSETS = (
    ("assets", "age", "The age of an asset with a maxAgeMs."),
    ("assets", "max_age", "The maxAgeMs of that asset."),
    ("lags", "lag", "For how long an input of an asset has had a change that the asset was not made from."),
)


class Numbers(Collector):
    """All of them, read when they are asked for. Without a reader: what this process did, and no more."""

    def __init__(self, reader: Reader | None = None) -> None:
        self._reader = reader

    def collect(self) -> Iterator[Metric]:
        """The families."""
        yield from _counted(counters.read())
        yield from _timed(counters.durations())
        if self._reader is not None:
            yield from _measured(self._reader.measures(MOST_ASSETS))


def render(reader: Reader | None = None) -> bytes:
    """The text that Prometheus reads."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Numbers(reader))
    return generate_latest(registry)


def serve(host: str, port: int) -> Callable[[], None]:
    """Serve what this process counted, for a process that serves nothing else; returns how to end it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Numbers())
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        hint = "choose another with FRESHLINE_METRICS_HOST and FRESHLINE_METRICS_PORT"
        raise UsageError(f"no metrics on {host} port {port}: {error.strerror or error}", hint=hint) from None

    def stop() -> None:
        server.shutdown()
        thread.join()
        server.server_close()

    return stop


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def show_metrics(_: Reading, store: Stored) -> Response:
    """Numbers for Prometheus."""
    return Response(render(store.reader), media_type=CONTENT_TYPE_LATEST)


def _counted(counts: Mapping[str, Iterable[tuple[Mapping[str, str], int]]]) -> Iterator[Metric]:
    for name, found in sorted(counts.items()):
        values = list(found)
        labels = sorted({label for given, _ in values for label in given})
        family = CounterMetricFamily(f"freshline_{name}", "What this process counted.", labels=labels)
        for given, value in values:
            family.add_metric([given.get(label, "") for label in labels], value)
        yield family


def _timed(found: Mapping[str, counters.Durations]) -> Iterator[Metric]:
    for name, one in sorted(found.items()):
        below = list(zip([*map(str, counters.BOUNDS), "+Inf"], accumulate(one.counts), strict=True))
        yield HistogramMetricFamily(f"freshline_{name}", "What this process counted.", below, one.total)


def _measured(found: Mapping[str, Any]) -> Iterator[Metric]:
    for name, shown, meaning in GAUGES:
        yield GaugeMetricFamily(f"freshline_{shown}", meaning, value=float(found[name] or 0))
    for name, shown, label, meaning in LABELLED:
        family = GaugeMetricFamily(f"freshline_{shown}", meaning, labels=[label])
        for row in found[name]:
            family.add_metric([row["name"]], row["count"])
        yield family
    for rows, name, meaning in ASSETS:
        family = GaugeMetricFamily(f"freshline_asset_{name}_seconds", meaning, labels=["asset"])
        for row in found[rows]:
            family.add_metric([row["assetId"]], float(row[name]))
        yield family
