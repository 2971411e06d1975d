"""Default mappings, and mappings that are refused with what to write."""

from __future__ import annotations

import pytest

from freshline.errors import PartitioningError
from freshline.partitions import (
    Dimensions,
    DynamicKeys,
    FixedKeys,
    Grain,
    Partitioning,
    TimePartitioning,
    Unpartitioned,
)
from freshline.partitions.axis import FixedSlice, KeyLink, LatestSlice, TimeLink
from freshline.partitions.compatibility import default_requirement, described, mapping_between
from freshline.partitions.declaration import Affects, All, Around, Declaration, Latest, Overlap, Pick, Rule, Same
from freshline.partitions.mapping import Linked
from freshline.partitions.requirements import ALL, ANY, Requirement

REGIONS = FixedKeys(("eu", "us"))


def time(grain: Grain, timezone: str = "UTC", start: str = "2024-01-01", end: str | None = None) -> TimePartitioning:
    """Return time partitions."""
    return TimePartitioning(grain, start, end, timezone)


HOURS, DAYS, WEEKS, MONTHS = (time(grain) for grain in (Grain.HOUR, Grain.DAY, Grain.WEEK, Grain.MONTH))
DAY_REGION = Dimensions((("day", DAYS), ("region", REGIONS)))


@pytest.mark.parametrize(
    ("source", "consumer"),
    [
        (time(Grain.MINUTE), HOURS),
        (HOURS, DAYS),
        (HOURS, time(Grain.DAY, "Europe/Berlin")),
        (HOURS, time(Grain.DAY, "America/New_York")),
        (time(Grain.DAY, "Europe/Berlin"), time(Grain.MONTH, "Europe/Berlin")),
        (time(Grain.DAY, "Asia/Kolkata"), time(Grain.WEEK, "Asia/Kolkata")),
        (time(Grain.MONTH, "Asia/Kolkata"), time(Grain.YEAR, "Asia/Kolkata")),
        (time(Grain.MINUTE), time(Grain.DAY, "Asia/Kathmandu")),
        (MONTHS, DAYS),  # each day reads its month
        (DAYS, time(Grain.DAY, "Etc/GMT", end="2026-01-01")),  # another name for the same days
        (HOURS, time(Grain.DAY, "Africa/Casablanca")),
        # Lord Howe is at 10:30 in winter and at 11:00 in summer: in these months its days consist of hours.
        (HOURS, time(Grain.DAY, "Australia/Lord_Howe", "2024-01-01", "2024-04-01")),
    ],
)
def test_times_that_nest_overlap_by_default(source: Partitioning, consumer: Partitioning) -> None:
    """The boundaries of the coarser are boundaries of the finer."""
    mapping = mapping_between(source, consumer)
    assert mapping.axes == (Linked(TimeLink(source, consumer), 0),)  # type: ignore[arg-type]
    assert default_requirement(mapping) == ALL


@pytest.mark.parametrize(
    ("source", "consumer", "message"),
    [
        (
            HOURS,
            time(Grain.DAY, "Asia/Kolkata"),
            (
                r"days in Asia/Kolkata do not consist of whole hours \(UTC\): 2024-01-02 begins at"
                r" 2024-01-01T18:30:00Z, within 2024-01-01T18; the rows of 2024-01-01T18 would count twice"
                r" \(name the timeColumn of the input, .* or write overlap: whole"
            ),
        ),
        (HOURS, time(Grain.DAY, "Asia/Kathmandu"), "begins at .*T18:15:00Z"),
        (WEEKS, MONTHS, "months in UTC do not consist of whole weeks in UTC: 2024-02 begins at 2024-02-01T00:00:00Z"),
        (MONTHS, WEEKS, "months in UTC do not consist of whole weeks in UTC"),
        (WEEKS, time(Grain.YEAR), "years in UTC do not consist of whole weeks in UTC: 2025 begins"),
        (time(Grain.DAY, "Europe/Berlin"), DAYS, "do not consist of whole"),
        # Lisbon is at UTC in winter: only the summer differs.
        (DAYS, time(Grain.DAY, "Europe/Lisbon"), "begins at 2024-03-31T23:00:00Z"),
        (DAYS, time(Grain.MONTH, "Europe/Lisbon"), "months in Europe/Lisbon .*: 2024-04 begins at 2024-03-31T23:00"),
        (HOURS, time(Grain.DAY, "Australia/Lord_Howe"), "begins at 2024-04-07T13:30:00Z"),
        # Kathmandu was at 5:30 before 1986.
        (
            time(Grain.HOUR, start="1960"),
            time(Grain.DAY, "Asia/Kathmandu", "1970-01-01", "1980-01-01"),
            "begins at 1969-12-31T18:30:00Z",
        ),
    ],
)
def test_times_that_do_not_nest_are_refused(source: Partitioning, consumer: Partitioning, message: str) -> None:
    """Sums would double. The error shows one boundary, and what to write instead."""
    for rule in (None, Overlap(), Around(-1, 0)):
        with pytest.raises(PartitioningError, match="do not consist of whole"):
            mapping_between(source, consumer, Declaration(rule))
    with pytest.raises(PartitioningError, match=message):
        mapping_between(source, consumer)
    for declared in (
        Declaration(Overlap(whole=True)),
        Declaration(Around(-1, 0, whole=True)),
        Declaration(time_column="at"),
    ):
        assert mapping_between(source, consumer, declared).axes


@pytest.mark.parametrize(
    ("source", "consumer", "requirement", "kinds"),
    [
        (DAYS, DAYS, ALL, [TimeLink]),
        (DAYS, Unpartitioned(), ANY, [FixedSlice]),
        (Unpartitioned(), DAYS, ALL, []),
        (Unpartitioned(), Unpartitioned(), ALL, []),
        (REGIONS, REGIONS, ALL, [KeyLink]),
        (REGIONS, FixedKeys(("us",)), ALL, [KeyLink]),
        (DynamicKeys(), DynamicKeys(5), ALL, [KeyLink]),
        (REGIONS, DynamicKeys(), ALL, [KeyLink]),
        (DAY_REGION, DAY_REGION, ALL, [TimeLink, KeyLink]),
        (DAY_REGION, Dimensions((("region", REGIONS), ("month", MONTHS))), ALL, [TimeLink, KeyLink]),
        (DAY_REGION, MONTHS, ALL, [TimeLink, FixedSlice]),
        (DAY_REGION, REGIONS, ALL, [FixedSlice, KeyLink]),
        (DAY_REGION, Unpartitioned(), ANY, [FixedSlice, FixedSlice]),
        (HOURS, DAY_REGION, ALL, [TimeLink]),
        (REGIONS, DAY_REGION, ALL, [KeyLink]),
    ],
)
def test_defaults(
    source: Partitioning, consumer: Partitioning, requirement: Requirement, kinds: list[type[object]]
) -> None:
    """Equal keys, overlapping times, everything for a consumer without partitions; dimensions by name and time."""
    mapping = mapping_between(source, consumer)
    assert [type(axis.link if isinstance(axis, Linked) else axis) for axis in mapping.axes] == kinds
    assert default_requirement(mapping) == requirement


def test_the_latest_need_one_key() -> None:
    """They are the newest that have data."""
    mapping = mapping_between(DAYS, REGIONS, Declaration(Latest(3)))
    assert mapping.axes == (LatestSlice(DAYS, 3),)
    assert default_requirement(mapping) == ANY


@pytest.mark.parametrize(
    ("source", "consumer", "declared", "message"),
    [
        (
            DAYS,
            REGIONS,
            Declaration(),
            r"days in UTC and the consumer fixed keys; no mapping follows .*write all or late",
        ),
        (REGIONS, DAYS, Declaration(), "fixed keys and the consumer days in UTC; no mapping follows"),
        (DAY_REGION, Dimensions((("a", REGIONS), ("b", REGIONS))), Declaration(), "no mapping follows"),
        (
            Dimensions((("a", REGIONS), ("b", DynamicKeys()))),
            Dimensions((("a", DAYS), ("b", DynamicKeys()))),
            Declaration(),
            "fixed keys and the consumer days in UTC; their keys have nothing in common",
        ),
        (REGIONS, FixedKeys(("eu", "asia")), Declaration(), "key 'asia', which the input does not have; it has eu, us"),
        (REGIONS, REGIONS, Declaration(Around(-1, 0)), "window is about time, and the input has fixed keys"),
        (DAYS, Unpartitioned(), Declaration(Around(-1, 0)), "window needs a consumer with partitions .*no partitions"),
        (DAYS, Unpartitioned(), Declaration(Same()), "same needs a consumer with partitions"),
        (
            HOURS,
            DAYS,
            Declaration(Same()),
            r"same needs equal keys; the input has hours \(UTC\) and the .*write overlap",
        ),
        (DAYS, time(Grain.DAY, "Asia/Tokyo"), Declaration(Same()), "the consumer days in Asia/Tokyo"),
        (Unpartitioned(), DAYS, Declaration(Around(-1, 0)), "the input has no partitions.*remove the mapping"),
        (
            DAYS,
            DAYS,
            Declaration(affects=Affects.LATEST),
            "affects is latest.*the input has days in UTC.*remove affects",
        ),
        (Unpartitioned(), Unpartitioned(), Declaration(affects=Affects.NONE), "affects is none"),
        (DAYS, DAYS, Declaration(dimensions=(("day", All()),)), "dimension 'day' does not exist .write the rule"),
        (
            DAY_REGION,
            DAYS,
            Declaration(dimensions=(("regoin", All()),)),
            "'regoin' does not exist.*did you mean 'region'",
        ),
        (DAY_REGION, DAYS, Declaration(dimensions=(("region", Pick(("asia",))),)), "pick: .*'asia' does not exist"),
        (DAY_REGION, DAYS, Declaration(dimensions=(("region", Same()),)), "same needs a consumer with partitions that"),
        (
            Dimensions((("a", DAYS), ("b", DAYS))),
            Unpartitioned(),
            Declaration(Latest(1)),
            "it is open which dimension the mapping is about .write dimensions: {a: …}",
        ),
        (
            time(Grain.DAY, end="2024-02-01"),
            time(Grain.DAY, start="2024-03-01"),
            Declaration(),
            "from 2024-01-01 to 2024-01-31 and the consumer from 2024-03-01 to no end; they share no time",
        ),
    ],
)
def test_a_mapping_that_cannot_be_is_refused(
    source: Partitioning, consumer: Partitioning, declared: Declaration, message: str
) -> None:
    """The error says why, and what to write."""
    with pytest.raises(PartitioningError, match=message):
        mapping_between(source, consumer, declared)


@pytest.mark.parametrize("rule", [All(), Latest(1)])
def test_everything_and_the_latest_fit_any_two(rule: Rule) -> None:
    """They do not depend on the consumer's key."""
    kinds = (DAYS, HOURS, REGIONS, DynamicKeys(), DAY_REGION, Unpartitioned())
    for source in kinds[:-1]:
        for consumer in kinds:
            assert mapping_between(source, consumer, Declaration(rule)).axes


def test_a_description_names_kind_and_zone() -> None:
    """For errors."""
    assert described(DAY_REGION) == "dimensions day (days in UTC), region (fixed keys)"
    assert described(Unpartitioned()) == "no partitions"
    assert described(DynamicKeys()) == "dynamic keys"
