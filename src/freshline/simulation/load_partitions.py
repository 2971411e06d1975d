"""Partitions in a synthetic load: which ones a source reports, late data, and backfills."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from freshline.definitions.schema.base import AsTuple, Model, PositiveMillis
from freshline.definitions.validation.problems import Loc, Problem
from freshline.duration import in_words, milliseconds
from freshline.errors import FreshlineError, UsageError
from freshline.model.backfill import DEFAULT_CONCURRENCY, DEFAULT_PRIORITY, MOST_CONCURRENCY, Only
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.selection import EVERYTHING
from freshline.simulation.catalogue import Catalogue
from freshline.simulation.driver import Demanded, Report
from freshline.simulation.horizon import earliest
from freshline.simulation.moments import moment_of
from freshline.simulation.requests import ORDERS, backfill_request
from freshline.suggest import hint


def _as_text(value: Any) -> Any:
    """Return a key that YAML reads as a number as text: a year."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Key = Annotated[str, BeforeValidator(_as_text), Field(min_length=1)]
Keys = Annotated[tuple[Key, ...], AsTuple, Field(min_length=1, max_length=10_000)]
At = Annotated[str, Field(description="When: a time after the start such as 2d, or 2026-01-07T09:00.")]


class SingleReport(Model):
    """Data that comes once: late partitions, or partitions by hand."""

    asset: str
    at: At
    late_ms: PositiveMillis | None = Field(
        default=None, description="How late: the partition that was the newest so long before."
    )
    keys: Keys | None = Field(default=None, description="The partitions, instead of `late`.")


class RequestedBackfill(Model):
    """A backfill that is requested once."""

    asset: str
    at: At
    first: Key | None = Field(default=None, alias="from", description="The first partition; default: the oldest one.")
    last: Key | None = Field(default=None, alias="to", description="The last partition; default: the newest one.")
    keys: Keys | None = Field(default=None, description="Single partitions, instead of a range.")
    only: Only = Field(default=Only.ALL, strict=False, description="`all`, `missing`, `failed` or `stale` partitions.")
    order: str | None = Field(default=None, description="`newest` or `oldest` first; default: newest, if possible.")
    upstream: bool = Field(default=False, description="Also the partitions that these are computed from.")
    downstream: bool = Field(default=False, description="Also the partitions that are computed from these.")
    concurrency: Annotated[int, Field(ge=1, le=MOST_CONCURRENCY)] = Field(
        default=DEFAULT_CONCURRENCY, description="How many of its runs may be queued or running."
    )
    priority: int = Field(default=DEFAULT_PRIORITY, description="The priority among backfills.")
    during_quiet_hours: bool = Field(default=False, description="Whether quiet hours do not bind it.")
    partial: bool = Field(default=False, description="Whether missing inputs are left out.")


def resolved(at: str, start: datetime) -> datetime:
    """Return a time of the load: a duration after the start, a time of day, or a date."""
    try:
        return start + timedelta(milliseconds=milliseconds(at))
    except ValueError:
        return moment_of(at, start, first=True)


def keys_at(partitioning: Partitioning, since: datetime, at: datetime) -> list[str]:
    """Return what a source reports at a time: what came to exist since its last report, else its newest partitions."""
    come = partitioning.keys(partitioning.arrived(since + timedelta.resolution, at), at, newest_first=False)
    return list(come) or list(partitioning.keys(partitioning.newest(at), at))


def single_reports(
    reports: Iterable[SingleReport], catalogue: Catalogue, start: datetime, end: datetime
) -> Iterator[Report]:
    """Yield single reports in the order of the file. What other policies do not have is left out."""
    for number, one in enumerate(reports, start=1):
        at = resolved(one.at, start)
        if one.asset in catalogue.sources and at < end:
            for key in _keys(one, catalogue.graph.partitioning(one.asset), at):
                yield Report(at, one.asset, f"late{number}", key)


def _keys(one: SingleReport, partitioning: Partitioning, at: datetime) -> Collection[str]:
    if one.keys is not None:
        return one.keys
    if one.late_ms is None:
        return keys_at(partitioning, at, at) if partitioning.columns else [""]
    then = at - timedelta(milliseconds=one.late_ms)
    return list(partitioning.keys(partitioning.newest(then), then))


def demands(backfills: Iterable[RequestedBackfill], catalogue: Catalogue, start: datetime) -> Iterator[Demanded]:
    """Yield the backfills, with the time at which each one is requested."""
    for one in backfills:
        at = resolved(one.at, start)
        given = {"first": one.first, "last": one.last, "upstream": one.upstream, "downstream": one.downstream}
        options = {
            **given,
            "keys": one.keys or (),
            "concurrency": one.concurrency,
            "priority": one.priority,
            "during_quiet_hours": one.during_quiet_hours,
            "partial": one.partial,
        }
        yield Demanded(at, backfill_request(one.asset, one.only, _order(one, catalogue), options, at))


def _order(one: RequestedBackfill, catalogue: Catalogue) -> str:
    producer = catalogue.graph.producer(one.asset)
    chained = producer is not None and catalogue.graph.own_input(producer) is not None
    return one.order or ("oldest" if chained else "newest")


def source_problems(
    name: str, keys: Collection[str] | None, assets: Iterable[str], catalogue: Catalogue
) -> Iterator[Problem]:
    """Yield the mistakes of the partitions of a source, or of the sources that fit a pattern."""
    loc = ("sources", name)
    for asset_id in assets:
        partitioning = catalogue.graph.partitioning(asset_id)
        if keys is None:
            if partitioning.is_dynamic:
                yield Problem(loc, f"asset {asset_id!r} has dynamic partitions: name those that are reported in 'keys'")
        elif not partitioning.columns:
            yield Problem((*loc, "keys"), f"asset {asset_id!r} has no partitions: leave 'keys' out")
        else:
            yield from _key_problems((*loc, "keys"), keys, partitioning)


def report_problems(one: SingleReport, loc: Loc, catalogue: Catalogue, start: datetime) -> Iterator[Problem]:
    """Yield the mistakes of a single report."""
    try:
        at = resolved(one.at, start)
    except UsageError as error:
        yield Problem((*loc, "at"), f"{error.message}, or a time after the start such as 2d")
        return
    if one.asset not in catalogue.sources:
        what = "is not a source" if one.asset in catalogue.assets else "does not exist"
        yield Problem((*loc, "asset"), f"asset {one.asset!r} {what}; {hint(one.asset, catalogue.sources)}")
        return
    partitioning = catalogue.graph.partitioning(one.asset)
    named = "keys" if one.keys is not None else "late" if one.late_ms is not None else None
    if named is None or not partitioning.columns:
        if named is not None:
            yield Problem((*loc, named), f"asset {one.asset!r} has no partitions: leave {named!r} out")
        elif partitioning.is_dynamic:
            yield Problem(loc, f"asset {one.asset!r} has dynamic partitions: name those that are reported in 'keys'")
    elif one.keys is not None and one.late_ms is not None:
        yield Problem((*loc, "late"), "'keys' and 'late' are two ways to name partitions: use one of them")
    elif one.keys is not None:
        yield from _key_problems((*loc, "keys"), one.keys, partitioning, at)
    elif partitioning.next_key_at(start) is None:
        yield Problem((*loc, "late"), f"the partitions of {one.asset!r} have no time: name them in 'keys'")
    elif not _keys(one, partitioning, at):
        late = in_words((one.late_ms or 0) / 1000)
        yield Problem((*loc, "late"), f"asset {one.asset!r} had no partition {late} before {at:%Y-%m-%d %H:%M}")


def backfill_problems(one: RequestedBackfill, loc: Loc, catalogue: Catalogue, start: datetime) -> Iterator[Problem]:
    """Yield the mistakes of a backfill."""
    try:
        resolved(one.at, start)
    except UsageError as error:
        yield Problem((*loc, "at"), f"{error.message}, or a time after the start such as 2d")
    if one.order is not None and one.order not in ORDERS:
        yield Problem((*loc, "order"), f"order is {one.order!r}; allowed are {', '.join(ORDERS)}")
    producer = catalogue.graph.producer(one.asset)
    if producer is None:
        made = sorted(catalogue.graph.outputs())
        what = "is a source: nothing computes it" if one.asset in catalogue.assets else "does not exist"
        yield Problem((*loc, "asset"), f"asset {one.asset!r} {what}; {hint(one.asset, made)}")
        return
    partitioning = catalogue.graph.partitioning(one.asset)
    for field, keys in (("from", one.first and [one.first]), ("to", one.last and [one.last]), ("keys", one.keys)):
        if keys and not partitioning.columns:
            yield Problem((*loc, field), f"asset {one.asset!r} has no partitions: leave {field!r} out")
        elif keys:
            yield from _key_problems((*loc, field), keys, partitioning)


def _key_problems(
    loc: Loc, keys: Iterable[str], partitioning: Partitioning, at: datetime | None = None
) -> Iterator[Problem]:
    """Yield what is wrong with keys. `at`: when they are reported, which is not before their windows begin."""
    for number, key in enumerate(keys):
        try:
            partitioning.parse(key)
            if at is not None:
                partitioning.require_begun(key, at)
        except FreshlineError as error:
            yield Problem((*loc, number), error.message)


def asked_since(
    reports: Iterable[SingleReport], backfills: Iterable[RequestedBackfill], catalogue: Catalogue, start: datetime
) -> datetime | None:
    """Return when the earliest window begins that late data and backfills need; None: they need none."""
    found = []
    for report in reports:
        partitioning = catalogue.graph.partitioning(report.asset)
        found.append(earliest(partitioning, _keys(report, partitioning, resolved(report.at, start))))
    for one in backfills:
        partitioning = catalogue.graph.partitioning(one.asset)
        first = [one.first] if one.first else one.keys
        if first is None and partitioning.columns:
            first = list(partitioning.keys(EVERYTHING, start, newest_first=False))[:1]
        found.append(earliest(partitioning, first or ()))
    return min((at for at in found if at is not None), default=None)
