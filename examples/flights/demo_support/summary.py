"""The effect of each update: counted and timed from the rows of the store, by the database's clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import TypeVar

from freshline.cli.render.format import duration, parse_time
from freshline.model.documents.asset import Graph, GraphEdge
from freshline.model.documents.decision import Decision
from freshline.model.documents.run import Run
from freshline.plural import counted
from freshline.store.read.reader import Reader

T = TypeVar("T")
EVERYTHING = 100_000


@dataclass(frozen=True)
class Update:
    """An update: its title, the sources that were reported, and the time of the first report."""

    title: str
    sources: tuple[str, ...]
    since: datetime


@dataclass(frozen=True)
class Effect:
    """The effect of an update. `fresh`: per refreshed workflow the seconds from the report to its publication."""

    update: Update
    succeeded: int
    failed: int
    retried: int
    timed: int
    avoided: int
    identical: int
    held: Counter[str]
    queued: float | None
    fresh: tuple[float, ...]

    @property
    def runs(self) -> int:
        """Return the number of all runs that the update caused."""
        return self.succeeded + self.failed


def effects(reader: Reader, updates: list[Update], ended: datetime | None = None) -> list[Effect]:
    """Return the effects. An update ends where the next one begins: the demo waits until everything is fresh.

    `ended`: when the last one had ended; None: now.
    """
    runs = [one for one in reader.runs(EVERYTHING) if one["status"] in {"succeeded", "failed"}]
    decisions = reader.decisions(EVERYTHING)
    edges = reader.graph()["edges"]
    ends = [*(update.since for update in updates[1:]), ended]
    return [
        _effect(update, _within(runs, _queued, update, end), _within(decisions, _decided, update, end), edges)
        for update, end in zip(updates, ends, strict=True)
    ]


def levels(graph: Graph) -> dict[str, int]:
    """Return the depth of each asset below its farthest source: 1 for those that read sources alone."""
    parents = {one["assetId"]: one["consumes"] for one in graph["assets"] if not one["source"]}

    def level(asset: str) -> int:
        return 1 + max((level(parent) for parent in parents[asset]), default=0) if asset in parents else 0

    return {asset: level(asset) for asset in parents}


def summary_rows(found: list[Effect]) -> Iterable[list[str]]:
    """Yield the rows of the table at the end, one per update."""
    for one in found:
        yield [
            one.update.title,
            str(one.runs),
            str(one.failed or "-"),
            str(one.held.total() or "-"),
            str(one.avoided or "-"),
            "-" if one.queued is None else f"{1000 * one.queued:.0f} ms",
            duration(median(one.fresh)) if one.fresh else "-",
            duration(max(one.fresh)) if one.fresh else "-",
        ]


def summary_sentences(found: list[Effect]) -> Iterable[str]:
    """Yield the totals of the table, and figures that are not in it."""
    held: Counter[str] = sum((one.held for one in found), Counter())
    later = [seconds for one in found[1:] for seconds in one.fresh]
    slowest = [max(one.fresh) for one in found[1:] if one.fresh]
    runs, failed = sum(one.runs for one in found), sum(one.failed for one in found)
    retried, timed = sum(one.retried for one in found), sum(one.timed for one in found)
    caused = f"{counted(runs, 'run')} for {counted(len(found), 'update')}"
    yield f"{caused}, {failed} failed, {retried} came by itself after a failure"
    yield f"{counted(timed, 'more run')} because a TTL ran out, whatever the updates did"
    yield f"{held.total()} times held: " + (", ".join(f"{reason} {n}" for reason, n in held.most_common()) or "never")
    avoided, identical = sum(one.avoided for one in found), sum(one.identical for one in found)
    yield f"{avoided} runs avoided: {identical} outputs came out identical, so what reads them did not run"
    if later:
        yield "from report to fresh, after the first update: " + _spread(later)
        yield "from report to all fresh: " + _spread(slowest)


def _spread(seconds: list[float]) -> str:
    return f"p50 {duration(median(seconds))}, max {duration(max(seconds))}"


def _effect(update: Update, runs: list[Run], decisions: list[Decision], edges: list[GraphEdge]) -> Effect:
    caused = [one for one in runs if one["trigger"].get("reason") != "expired"]
    good = [one for one in caused if one["status"] == "succeeded"]
    ran = {one["workflowSlug"] for one in caused}
    return Effect(
        update=update,
        succeeded=len(good),
        failed=len(caused) - len(good),
        retried=sum(one["trigger"].get("reason") == "retry" for one in good),
        timed=len(runs) - len(caused),
        avoided=len(_below(update.sources, edges) - ran),
        identical=sum(len(one["result"]["unchanged"]) for one in good if one["result"]),
        held=Counter(one["reason"] for one in decisions if one["outcome"] == "hold"),
        queued=min(((parse_time(one["queuedAt"]) - update.since).total_seconds() for one in caused), default=None),
        fresh=tuple({one["workflowSlug"]: _seconds(update, one) for one in reversed(good)}.values()),
    )


def _seconds(update: Update, run: Run) -> float:
    return (parse_time(str(run["finishedAt"])) - update.since).total_seconds()


def _queued(run: Run) -> str:
    return run["queuedAt"]


def _decided(decision: Decision) -> str:
    return decision["at"]


def _within(entries: list[T], time: Callable[[T], str], update: Update, end: datetime | None) -> list[T]:
    times = ((one, parse_time(time(one))) for one in entries)
    return [one for one, at in times if at >= update.since and (end is None or at < end)]


def _below(sources: Iterable[str], edges: list[GraphEdge]) -> set[str]:
    """Return all workflows that a change of the sources may cause to run."""
    follow = [edge for edge in edges if edge["triggers"]]
    reached = set(sources)
    while more := {edge["to"] for edge in follow if edge["from"] in reached} - reached:
        reached |= more
    return {edge["workflowSlug"] for edge in follow if edge["from"] in reached}
