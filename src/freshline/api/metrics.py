"""Prometheus metrics: counters of this process, and gauges of the installation.

Labels come from small closed sets: codes, states and names of transactions. The exceptions name assets, at most
`MAX_ASSETS` each: those with the least time until their `maxAgeMs`, and those furthest behind their inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from freshline import counters
from freshline.api.auth import RequireRead
from freshline.api.workflows import StoreDep
from freshline.errors import UsageError
from freshline.model.json import Json
from freshline.store.read.reader import Reader

router = APIRouter(tags=["metrics"])
MAX_ASSETS = 100
# The key in `Reader.measures`, the name of the metric, and its description.
GAUGES = (
    ("queued", "runs_queued", "Runs that wait for a worker."),
    ("queuedAge", "runs_queued_oldest_seconds", "Waiting time of the oldest of them."),
    ("running", "runs_running", "Runs that a worker executes."),
    ("unabsorbed", "events_unabsorbed", "Events that no materializer has absorbed."),
    ("unabsorbedAge", "events_unabsorbed_oldest_seconds", "Waiting time of the oldest of them."),
    ("due", "considerations_due", "Workflows that are due for evaluation."),
    ("dueAge", "considerations_due_oldest_seconds", "Waiting time of the oldest of them."),
    ("unstamped", "events_unstamped", "Events without a position, not yet visible to external readers."),
    ("unstampedAge", "events_unstamped_oldest_seconds", "Waiting time of the oldest of them."),
    ("timersDue", "timers_due", "Timers that are due and have not fired."),
    ("timersDueAge", "timers_due_oldest_seconds", "Waiting time of the oldest of them."),
    ("unlogged", "table_versions_unlogged", "Table versions that are not yet in their Delta log."),
    ("unloggedAge", "table_versions_unlogged_oldest_seconds", "Waiting time of the oldest of them."),
    ("failing", "workflows_failing", "Workflows whose last automatic run failed."),
    ("breakers", "breakers_open", "Workflows whose breaker is open."),
    ("paused", "workflows_paused", "Paused workflows."),
    ("watchesFailing", "watches_failing", "Sources whose last look failed."),
    ("watchBreakers", "watch_breakers_open", "Sources that are looked at rarely, because their looks keep failing."),
    ("hooksFailing", "webhooks_failing", "Webhooks whose last delivery failed."),
    ("lettersWaiting", "webhook_letters_waiting", "Failed webhook deliveries that wait for a retry."),
    ("lettersDead", "webhook_letters_dead", "Webhook deliveries that failed permanently."),
    ("alertsOpen", "alert_incidents_open", "Open incidents of alerts."),
    ("alertsWaiting", "alert_messages_waiting", "Messages of alerts that were not sent yet."),
    ("alertsDead", "alert_messages_dead", "Messages of alerts that were given up."),
    ("avoided", "runs_avoided", "Total of runs that were not needed because an input was identical."),
)
LABELLED = (
    ("holds", "holds", "reason", "Held workflows, by reason."),
    ("workers", "processes", "kind", "Live processes, by kind."),
)

ASSETS = (
    ("assets", "age", "The age of an asset with a maxAgeMs."),
    ("assets", "max_age", "The maxAgeMs of that asset."),
    ("lags", "lag", "Age of the oldest input change that an asset does not include."),
)


class MetricsCollector(Collector):
    """Collects all metrics on request. Without a reader: only the counters of this process."""

    def __init__(self, reader: Reader | None = None) -> None:
        self._reader = reader

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families."""
        yield from _counted(counters.read())
        yield from _timed(counters.durations())
        if self._reader is not None:
            yield from _measured(self._reader.measures(MAX_ASSETS))


def render(reader: Reader | None = None) -> bytes:
    """Return the metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(MetricsCollector(reader))
    return generate_latest(registry)


def serve(host: str, port: int) -> Callable[[], None]:
    """Serve the counters of a process that has no other HTTP server; return a function that stops the server."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(MetricsCollector())
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
def show_metrics(_: RequireRead, store: StoreDep) -> Response:
    """Return the metrics in Prometheus' text format."""
    return Response(render(store.reader), media_type=CONTENT_TYPE_LATEST)


def _counted(counts: Mapping[str, Iterable[tuple[Mapping[str, str], int]]]) -> Iterator[Metric]:
    for name, found in sorted(counts.items()):
        values = list(found)
        labels = sorted({label for given, _ in values for label in given})
        family = CounterMetricFamily(f"freshline_{name}", "A counter of this process.", labels=labels)
        for given, value in values:
            family.add_metric([given.get(label, "") for label in labels], value)
        yield family


def _timed(found: Mapping[str, counters.Durations]) -> Iterator[Metric]:
    for name, one in sorted(found.items()):
        below = list(zip([*map(str, counters.BOUNDS), "+Inf"], accumulate(one.counts), strict=True))
        yield HistogramMetricFamily(f"freshline_{name}", "A counter of this process.", below, one.total)


def _measured(found: Json) -> Iterator[Metric]:
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
