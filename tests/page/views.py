"""The views of the page in the scene."""

from __future__ import annotations

from typing import NamedTuple


class View(NamedTuple):
    """A view: its address, its main heading, facts that it shows, and the command that says the same.

    `{name}` is an id of the scene.
    """

    address: str
    heading: str
    facts: tuple[str, ...]
    command: str


VIEWS = (
    View("", "5 of 13 fresh", ("orders-clean", "was never reported"), "freshline status"),
    View("graph?show=all", "Graph", ("22 assets",), "freshline graph"),
    View("assets?state=failing", "Assets", ("orders.clean", "2 of 22 assets"), "freshline status"),
    View("assets?group=1&q=flights", "Assets", ("flights.clean", "within 6h"), "freshline status '*flights*'"),
    View("assets/flights.clean", "flights.clean", ("Promised: never older",), "freshline status flights.clean"),
    View("assets/flights.clean?tab=versions&a=1&b=2", "flights.clean", ("Over time",), "freshline table versions"),
    View(
        "assets/flights.clean?tab=decisions", "flights.clean", ("flights.raw changed",), "freshline why flights.clean"
    ),
    View("assets/flights.clean?tab=checks", "flights.clean", ("minRows: 4",), "freshline why flights.clean"),
    View(
        "assets/flights.clean?tab=rows", "flights.clean", ("All 3 rows of version 2",), "freshline show flights.clean"
    ),
    View("assets/sales.daily?tab=partitions", "sales.daily", ("the newest is 2026-01-04",), "freshline partitions"),
    View(
        "assets/sales.daily?partition=2025-12-03",
        "sales.daily",
        ("of this partition", "2025-12-03"),
        "freshline status",
    ),
    View("assets/flights.raw", "flights.raw", ("A source: it is made outside",), "freshline status flights.raw"),
    View("workflows/flights-clean", "flights-clean", ("run when flights.raw changes",), "freshline status"),
    View("workflows/planes?tab=definition", "planes", ("planes.known",), "freshline status planes"),
    View(
        "workflows/sales-daily", "sales-daily", ("one for each day since 2025-12-01",), "freshline status sales-daily"
    ),
    View("runs?state=failed&workflow=orders-clean", "Runs", ("ValueError",), "freshline runs --state failed"),
    View("runs/{succeeded}", "flights-clean", ("wrote 3 rows", "What it caused"), "freshline logs"),
    View("runs/{failed}?find=reading", "orders-clean", ("ValueError", "reading orders"), "freshline runs"),
    View("why?q=orders", "Why", ("orders.clean", "orders-report"), "freshline why ASSET"),
    View("why/orders.report", "orders.report", ("Where it begins", "orders-clean"), "freshline why orders.report"),
    View("plan?asset=orders.raw", "Plan", ("What would run, in order", "orders-daily"), "freshline plan orders.raw"),
    View("plan?tab=simulate&workflow=flights-delay", "Plan", ("How often", "Debounce"), "freshline simulate"),
    View(
        "plan?tab=simulate&workflow=flights-report&since=24h&flights-report.minInterval=3h&play=1",
        "Plan",
        ("With the change:", "Over time", "of 16 partitions"),
        "freshline simulate",
    ),
    View("backfills", "Backfills", ("web.daily", "sales.daily"), "freshline backfill list"),
    View("backfills/{backfill}", "", ("of sales.daily", "4 of 12"), "freshline backfill show"),
    View("backfills/{proposal}", "", ("web.daily", "Approve…"), "freshline backfill show"),
    View("events?subject=orders-clean", "Events", ("workflow.run.failed",), "freshline events --subject orders-clean"),
    View("events/{event}", "asset.produced", ("What it caused", "flights-clean"), "freshline events"),
    View("decisions?workflow=orders-clean", "Decisions", ("it cools down after 1 failure",), "freshline decisions"),
    View("workers", "Workers", ("materializer", "heavy"), "freshline workers"),
    View("sources?watch=failing", "Sources", ("partner.prices",), "freshline watch list"),
    View("sources?source=landing.files", "landing.files", ("inbox/2026-01-02.csv",), "freshline"),
    View("sources?source=sales.raw", "sales.raw", ("2025-12-16", "of the last look"), "freshline watch show sales.raw"),
    View("webhooks", "Webhooks", ("catalogue",), "freshline webhook list"),
    View("alerts", "Alerts", ("oncall", "$ONCALL_URL"), "freshline alert list"),
    View("tokens", "Tokens", ("operator",), "freshline token list"),
    View("audit?subject=planes", "Audit", ("pause",), "freshline audit planes"),
)
