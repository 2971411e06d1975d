"""What a step tells while it runs: bounded in number, the last word always, the job's own word before Spark's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from freshline.errors import JobError
from freshline.worker import progress_reporter as voice_module
from freshline.worker.progress_reporter import Voice, job_progress
from tests.waiting import wait_until


def job(done: float, total: float | None = None) -> dict[str, Any]:
    """What `ctx.progress` says."""
    return {"type": "progress", "progress": {"job": job_progress(done, total)}}


def spark(done: int) -> dict[str, Any]:
    """What the meter of a Spark step says."""
    return {"type": "progress", "progress": {"spark": {"done": done, "total": 9, "stages": 1}}}


def test_a_tight_loop_tells_its_first_and_its_last_word_and_little_between() -> None:
    """10,000 calls are a handful of messages; the last one is told though nothing follows it."""
    sent: list[dict[str, Any]] = []
    speaking = Voice(sent.append)
    for done in range(10_000):
        speaking(job(done, 10_000))
    wait_until(lambda: sent[-1] == job(9_999, 10_000), what="the last word")
    assert sent[0] == job(0, 10_000)
    assert len(sent) < 100
    assert speaking.last == {"done": 9_999, "total": 10_000}


def test_the_end_tells_what_was_not_told_and_nothing_comes_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """No message of one step may arrive in the next one."""
    monkeypatch.setattr(voice_module, "PAUSE_S", 60)
    sent: list[dict[str, Any]] = []
    speaking = Voice(sent.append)
    speaking(job(1))
    speaking(job(2))
    assert sent == [job(1)]
    speaking.hush()
    speaking(job(3))
    speaking.returned()
    speaking.hush()
    assert sent == [job(1), job(2)]


def test_many_threads_may_speak(monkeypatch: pytest.MonkeyPatch) -> None:
    """User code, Spark's teller and the timer meet without a word lost at the end."""
    monkeypatch.setattr(voice_module, "PAUSE_S", 0.001)
    sent: list[dict[str, Any]] = []
    speaking = Voice(sent.append)

    def speak(make: Callable[[int], dict[str, Any]]) -> None:
        for number in range(500):
            speaking(make(number))

    threads = [threading.Thread(target=speak, args=(make,)) for make in (job, spark)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    speaking.hush()
    assert sent[-1]["progress"] == {**job(499)["progress"], **spark(499)["progress"]}


def test_the_jobs_word_goes_when_its_function_has_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that said 10 of 10 and left Spark a table to write is not shown as done; its word is kept as a number."""
    monkeypatch.setattr(voice_module, "PAUSE_S", 0)
    sent: list[dict[str, Any]] = []
    speaking = Voice(sent.append)
    speaking(spark(1))
    speaking(job(10, 10))
    speaking.returned()
    assert [set(one["progress"]) for one in sent] == [{"spark"}, {"spark", "job"}, {"spark"}]
    assert speaking.last == {"done": 10, "total": 10}


def test_lines_are_told_at_once() -> None:
    """Only progress is held back."""
    sent: list[dict[str, Any]] = []
    speaking = Voice(sent.append)
    for _ in range(3):
        speaking({"type": "log", "text": "hello"})
    assert len(sent) == 3


@pytest.mark.parametrize("value", ["x", None, float("nan"), float("inf"), [1]])
def test_what_is_no_number_is_refused_with_an_example(value: Any) -> None:
    """The error is the user's, with the value and what is allowed."""
    with pytest.raises(JobError, match=r"ctx.progress\(done=.*allowed are finite numbers, e.g. ctx.progress\(3, 10\)"):
        job_progress(value, 1)


def test_numbers_of_other_kinds_are_taken() -> None:
    """Whatever float() takes; whole numbers stay whole."""
    assert job_progress(Decimal(2), 2.5) == {"done": 2, "total": 2.5}
