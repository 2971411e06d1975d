"""Partitions and backfills in the public test kit."""

from __future__ import annotations

import pytest

from freshline.errors import DefinitionErrors, PartitionKeyError, UsageError
from freshline.testing import Chain, ExpectationError, given
from tests.testing.test_docs import run_examples

SALES = run_examples()["SALES"]


@pytest.fixture(scope="module")
def start() -> Chain:
    """Return a chain of hours, days and a total, all of them fresh."""
    return given(SALES).at("2024-03-01T09:00")


def test_names_that_cannot_be(start: Chain) -> None:
    """The error says what is allowed."""
    with pytest.raises(UsageError, match=r"'orders.hourly' has partitions, and none is named"):
        start.report("orders.hourly")
    with pytest.raises(PartitionKeyError, match=r"is not an hour; allowed are keys such as"):
        start.report("orders.hourly", "2024-01-31")
    with pytest.raises(UsageError, match=r'write \("sales.daily", "2024-02-29"\)'):
        start.expect_runs("sales.daily")
    with pytest.raises(UsageError, match="has no partitions"):
        start.expect_runs(("sales.total", "2024-01-31"))
    with pytest.raises(PartitionKeyError, match="does not exist before"):
        start.expect_held(("sales.daily", "2024-05-01"))
    with pytest.raises(UsageError, match=r"option 'fist' of a backfill does not exist .did you mean 'first'"):
        start.backfill("sales.daily", fist="2024-01-01")
    with pytest.raises(UsageError, match="only is 'some'; allowed are missing, failed, stale, all"):
        start.backfill("sales.daily", only="some")
    with pytest.raises(UsageError, match="order is 'any'; allowed are newest, oldest"):
        start.backfill("sales.daily", order="any")
    with pytest.raises(UsageError, match="no backfill was requested"):
        start.cancel_backfill()


def test_a_failed_expectation_lists_the_partitions_that_are_not_fresh(start: Chain) -> None:
    """Hundreds of fresh partitions are left out."""
    with pytest.raises(ExpectationError) as error:
        start.report("orders.hourly", "2024-01-31T05").expect_runs("sales.total")
    assert str(error.value).splitlines() == [
        "expected runs of sales-total, but sales-daily@2024-01-31 runs",
        "at 2024-03-01 09:00:00 UTC:",
        "  sales-daily@2024-01-31  queued (upstream-update)",
        "  sales-total             skipped (up-to-date)",
        "after: at 2024-03-01T09:00; report orders.hourly@2024-01-31T05",
    ]
    with pytest.raises(ExpectationError, match="to be finished, but it is active: 0 of 60 done, 0 failed"):
        start.backfill("sales.daily").expect_backfill("finished")


def test_a_pause_concerns_all_partitions(start: Chain) -> None:
    """Also those that come later, until it ends."""
    paused = start.pause("sales-daily").report("orders.hourly", "2024-01-31T05", "2024-03-01T05").expect_no_runs()
    paused = paused.expect_held(("sales.daily", "2024-01-31"), "paused").at("2024-03-02T00:00").expect_no_runs()
    paused.resume("sales-daily").expect_runs(("sales.daily", "2024-01-31"), ("sales.daily", "2024-03-01"))


def test_partitions_that_do_not_fit_name_the_line() -> None:
    """Days of another zone do not consist of whole hours."""
    with pytest.raises(DefinitionErrors, match=r"given:9: asset 'orders.hourly': days in Asia/Kolkata do not consist"):
        given(SALES.replace("time: day,", "time: day, timezone: Asia/Kolkata,"))
