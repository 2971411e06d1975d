"""Reports of a running step: bounded in number, the last one always sent, the job's own progress beside Spark's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from freshline.errors import JobError
from freshline.worker import progress_reporter
from freshline.worker.progress_reporter import ProgressReporter, progress_numbers
from freshline.worker.protocol import LogLine, Progress
from tests.waiting import wait_until


def job(done: float, total: float | None = None) -> Progress:
    """Return the message about `ctx.progress`."""
    return Progress({"job": progress_numbers(done, total)})


def spark(done: int) -> dict[str, int]:
    """Counters of the meter of a Spark step."""
    return {"done": done, "total": 9, "stages": 1}


class Sent(list[LogLine | Progress]):
    """The messages that a reporter sent."""

    @property
    def values(self) -> list[dict[str, Any]]:
        """The values of the progress messages."""
        return [dict(one.values) for one in self if isinstance(one, Progress)]


def test_a_tight_loop_sends_its_first_and_its_last_progress_and_little_between() -> None:
    """10,000 calls are a handful of messages; the last one is sent though nothing follows it."""
    sent = Sent()
    reporter = ProgressReporter(sent.append)
    for done in range(10_000):
        reporter.job_progress(done, 10_000)
    wait_until(lambda: sent[-1] == job(9_999, 10_000), what="the last progress")
    assert sent[0] == job(0, 10_000)
    assert len(sent) < 100
    assert reporter.last_job_progress == {"done": 9_999, "total": 10_000}


def test_close_sends_what_is_unsent_and_nothing_comes_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """No message of one step may arrive in the next one."""
    monkeypatch.setattr(progress_reporter, "INTERVAL_S", 60)
    sent = Sent()
    reporter = ProgressReporter(sent.append)
    reporter.job_progress(1)
    reporter.job_progress(2)
    assert sent == [job(1)]
    reporter.close()
    reporter.job_progress(3)
    reporter.job_returned()
    reporter.close()
    assert sent == [job(1), job(2)]


def test_many_threads_may_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """User code, the thread that reads Spark's counters and the timer meet, and the last values are sent."""
    monkeypatch.setattr(progress_reporter, "INTERVAL_S", 0.001)
    sent = Sent()
    reporter = ProgressReporter(sent.append)

    def repeat(report: Callable[[int], None]) -> None:
        for number in range(500):
            report(number)

    reports = (reporter.job_progress, lambda number: reporter.spark_progress(spark(number)))
    threads = [threading.Thread(target=repeat, args=(report,)) for report in reports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reporter.close()
    assert sent.values[-1] == {"job": progress_numbers(499, None), "spark": spark(499)}


def test_the_jobs_progress_goes_when_its_function_has_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that reported 10 of 10 and left Spark a table to write is not shown as done; the numbers are kept."""
    monkeypatch.setattr(progress_reporter, "INTERVAL_S", 0)
    sent = Sent()
    reporter = ProgressReporter(sent.append)
    reporter.spark_progress(spark(1))
    reporter.job_progress(10, 10)
    reporter.job_returned()
    assert [set(values) for values in sent.values] == [{"spark"}, {"spark", "job"}, {"spark"}]
    assert reporter.last_job_progress == {"done": 10, "total": 10}


def test_lines_are_sent_at_once() -> None:
    """Only progress is held back."""
    sent = Sent()
    reporter = ProgressReporter(sent.append)
    for _ in range(3):
        reporter.log("hello")
    assert sent == [LogLine("hello")] * 3


@pytest.mark.parametrize("value", ["x", None, float("nan"), float("inf"), [1]])
def test_a_value_that_is_not_a_number_is_refused_with_an_example(value: Any) -> None:
    """The error is the user's, with the value and what is allowed."""
    with pytest.raises(JobError, match=r"ctx.progress\(done=.*allowed are finite numbers, e.g. ctx.progress\(3, 10\)"):
        progress_numbers(value, 1)


def test_numbers_of_other_kinds_are_taken() -> None:
    """Whatever float() takes; whole numbers stay whole."""
    assert progress_numbers(Decimal(2), 2.5) == {"done": 2, "total": 2.5}
