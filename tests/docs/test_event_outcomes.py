"""docs/decisions.md describes the outcomes of events with the names, reasons and fields of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from freshline.cli.render.event_outcomes import cells, headline
from freshline.model.enums import EventOutcome, EventReason, EventType
from freshline.store.read.event_outcomes import NO_OUTCOMES
from tests.docs.pages import Page, code, codes, session
from tests.store_harness import Lab, laboratory, workflow

PAGE = Page("docs/decisions.md")


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield the page's diamond: orders, clean from orders, report from both; orders changed and clean is queued."""
    with laboratory(database_url) as lab:
        lab.apply(workflow("clean", "orders"), workflow("report", "orders clean"))
        lab.report("orders")
        lab.work()
        lab.report("orders")
        lab.settle()
        yield lab


def test_every_fate_and_every_reason_is_told() -> None:
    """All of them, in the order of the code, each reason under a fate."""
    assert [code(row[0]) for row in PAGE.table("Outcomes")] == list(EventOutcome)
    rows = PAGE.table("Reasons of outcomes")
    assert [code(row[0]) for row in rows] == list(EventReason)
    assert {row[1] for row in rows} == {"included", "ignored", "pending"}


def test_the_fields_are_those_of_the_answer(lab: Lab) -> None:
    """None more, none less, in this order."""
    found = lab.store.reader.event(str(lab.events("asset.produced")[-1]["id"]))
    told = [field for row in PAGE.table("The answer as JSON") for field in codes(row[0])]
    assert told == list(found["fates"][0])
    assert list(found)[-2:] == list(NO_OUTCOMES) == ["consumers", "fates"]


def test_the_events_that_concern_somebody_are_told() -> None:
    """The two columns of the table."""
    (head,) = [line for line in PAGE.section("Outcomes").splitlines() if line.startswith("| fate")]
    assert codes(head) == [EventType.ASSET_PRODUCED, EventType.ASSET_EXPIRED]


def test_the_example_is_real(lab: Lab) -> None:
    """The command prints these lines; times and ids aside."""
    ((_, shown),) = session(PAGE.blocks("console")[0])
    event = lab.store.reader.event(str(lab.events("asset.produced")[-1]["id"]))
    lines = [headline(event).plain, *("  ".join(str(cell) for cell in cells(one)) for one in event["fates"])]
    del shown[1]  # the table's head
    assert [plain(line) for line in lines] == [plain(line) for line in shown]


def plain(line: str) -> list[str]:
    """Return the words of a line, with placeholders for times and ids."""
    line = re.sub(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d", "TIME", line)
    return re.sub(r"run [0-9a-f]{8}", "run ID", line).split()
