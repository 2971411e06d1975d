"""The course of runs under way: a live bar for each on a terminal, elsewhere a line whenever something changed.

The workers store progress with their heartbeat, so what is shown is up to two or three seconds old.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Any, NamedTuple, Protocol

from freshline.cli.render import output
from freshline.cli.render.format import duration, parse_time, short
from freshline.cli.render.text import Text
from freshline.model.json import Json

TENTHS = 10


class Standing(NamedTuple):
    """How far a run is. `total` None: nobody knows how much there is to do."""

    step: str | None
    done: float | None
    total: float | None
    unit: str = ""

    @property
    def share(self) -> float | None:
        """The part that is done, from 0 to 1."""
        return None if self.done is None or not self.total else min(1.0, max(0.0, self.done / self.total))

    @property
    def words(self) -> str:
        """As `3/10 tasks`; empty while nothing is known."""
        if self.done is None:
            return ""
        total = "" if self.total is None else f"/{self.total:,}"
        return f"{self.done:,}{total}{self.unit}"


def standing(run: Json) -> Standing:
    """What the job says of itself counts, else Spark's tasks."""
    progress = run["progress"] or {}
    if job := progress.get("job"):
        return Standing(progress.get("step"), job["done"], job["total"])
    spark = progress.get("spark") or {}
    return Standing(progress.get("step"), spark.get("done"), spark.get("total"), " tasks")


def elapsed(run: Json, now: datetime) -> str:
    """Since its attempt began, or since it was queued."""
    since = parse_time(run["startedAt"] or run["queuedAt"])
    return duration(max(0.0, (now - since).total_seconds()))


class Course(Protocol):
    """Something that shows runs while they are under way."""

    def update(self, runs: Sequence[Json]) -> None:
        """These are under way now, and no others."""

    def tell(self, line: Text) -> None:
        """Print one line that stays."""


class Lines:
    """A line when a run begins, comes to another step or try, or has done another tenth of it."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._told: dict[str, tuple[Any, ...]] = {}

    def update(self, runs: Sequence[Json]) -> None:
        """See `Course.update`."""
        now = datetime.now(UTC)
        marks = {run["id"]: _mark(run) for run in runs}
        for run in runs:
            if self._told.get(run["id"]) != marks[run["id"]]:
                self.tell(_line(run, now))
        self._told = marks

    def tell(self, line: Text) -> None:
        """See `Course.tell`."""
        output.write_line(line, self._file)


def _mark(run: Json) -> tuple[Any, ...]:
    at = standing(run)
    return run["status"], run["attempt"], at.step, None if at.share is None else int(at.share * TENTHS)


def _line(run: Json, now: datetime) -> Text:
    at = standing(run)
    parts = [f"run {short(run['id'])} of {run['workflowSlug']} is {run['status']}"]
    parts += [f"step {at.step}"] if at.step else []
    parts += [f"{at.share:.0%} ({at.words})" if at.share is not None else at.words] if at.words else []
    return Text(f"{', '.join(parts)} after {elapsed(run, now)}")


@contextmanager
def course(file: IO[str]) -> Iterator[Course]:
    """Bars on a terminal, lines elsewhere."""
    if not file.isatty():
        yield Lines(file)
        return
    from freshline.cli.render.progress_bars import bars  # noqa: PLC0415 - rich takes its time

    with bars(file) as shown:
        yield shown
