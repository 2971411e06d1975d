"""Followers: return what is new since the last poll, without gaps and repeats even if transactions overlap."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from freshline.cli.render.format import parse_time

if TYPE_CHECKING:
    from freshline.cli.backend.protocol import ReadOnlyBackend
    from freshline.cli.render.progress import Progress
    from freshline.model.documents.decision import Decision
    from freshline.model.documents.event import Event
    from freshline.model.documents.run import Run
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

POLL_S = 0.5


class Follower(Protocol[T_co]):
    """Returns what is new, oldest first, on each poll."""

    def poll(self) -> Sequence[T_co]:
        """Return what is new since the last call; the first call returns the newest entries."""


class EventFollower:
    """Follows events by their positions, which are in the order of commits."""

    def __init__(
        self,
        reader: ReadOnlyBackend,
        *,
        limit: int,
        after: str | None = None,
        type: str | None = None,  # noqa: A002 - the field's name
        subject: str | None = None,
        asset: str | None = None,
        partition: str | None = None,
    ) -> None:
        self._reader = reader
        self._type = type
        self._subject = subject
        self._asset = asset
        self._partition = partition
        self._limit = limit
        self._position = None if after is None else reader.position(after)

    def poll(self) -> list[Event]:
        """Return numbered events that were not returned yet."""
        if self._position is None:
            return self._newest()
        about = {"asset": self._asset, "partition": self._partition}
        found = self._reader.events_since(self._position, self._type, self._subject, **about)
        if found:
            self._position = found[-1]["position"]
        return found

    def _newest(self) -> list[Event]:
        end = self._position = self._reader.position()
        listed = self._reader.events(
            self._limit, None, self._type, self._subject, asset=self._asset, partition=self._partition
        )
        return [one for one in reversed(listed) if one["position"] is not None and one["position"] <= end]


class DecisionFollower:
    """Follows decisions by their time. Repetitions of a decision are not returned again."""

    def __init__(
        self,
        reader: ReadOnlyBackend,
        *,
        limit: int,
        workflow: str | None = None,
        partition: str | None = None,
        outcome: str | None = None,
    ) -> None:
        self._reader = reader
        self._workflow = workflow
        self._partition = partition
        self._outcome = outcome
        self._limit = limit
        self._since: datetime | None = None
        self._seen: set[str] = set()

    def poll(self) -> list[Decision]:
        """Return decisions that were not returned yet."""
        if self._since is None:
            return self._newest()
        window = self._reader.decisions_since(self._since, self._workflow, partition=self._partition)
        fresh = [one for one in window if one["id"] not in self._seen]
        self._seen = {one["id"] for one in window}
        self._since = max([self._since, *(parse_time(one["at"]) for one in fresh)])
        return [one for one in fresh if self._outcome in (None, one["outcome"])]

    def _newest(self) -> list[Decision]:
        self._since = self._reader.now()
        listed = self._reader.decisions(
            self._limit, workflow=self._workflow, partition=self._partition, outcome=self._outcome
        )
        window = self._reader.decisions_since(self._since, self._workflow, partition=self._partition)
        self._seen = {one["id"] for one in window} | {one["id"] for one in listed}
        return listed[::-1]


class RunFollower:
    """Follows runs: returns a run again whenever its status or attempt changes. `running`: those at the last poll."""

    def __init__(
        self,
        reader: ReadOnlyBackend,
        *,
        limit: int,
        workflow: str | None = None,
        partition: str | None = None,
        status: str | None = None,
        trigger: str | None = None,
    ) -> None:
        self._reader = reader
        self._workflow = workflow
        self._partition = partition
        self._status = status
        self._trigger = trigger
        self._limit = limit
        self._since: datetime | None = None
        self._known: dict[str, tuple[str, int]] = {}
        self.running: list[Run] = []

    def poll(self) -> list[Run]:
        """Return runs that changed since the last call."""
        if self._since is None:
            return self._newest()
        moving = self._reader.moving_runs(self._since, list(self._known), self._workflow, partition=self._partition)
        self.running = [one for one in moving if one["status"] == "running"]
        moved = [one for one in moving if self._known.get(one["id"]) != _standing(one)]
        self._since = max([self._since, *(parse_time(one["queuedAt"]) for one in moved)])
        # Only a run that can still change, or that the window returns again, has to be remembered.
        self._known = {one["id"]: _standing(one) for one in moving if self._worth_knowing(one)}
        return [one for one in moved if self._is_wanted(one)]

    def _newest(self) -> list[Run]:
        self._since = self._reader.now()
        moving = self._reader.moving_runs(self._since, [], self._workflow, partition=self._partition)
        self.running = [one for one in moving if one["status"] == "running"]
        listed = self._reader.runs(
            self._limit,
            status=self._status,
            workflow=self._workflow,
            partition=self._partition,
            trigger=self._trigger,
        )
        self._known = {one["id"]: _standing(one) for one in [*moving, *listed]}
        return listed[::-1]

    def _is_wanted(self, run: Run) -> bool:
        return self._status in (None, run["status"]) and self._trigger in (None, run["trigger"]["type"])

    def _worth_knowing(self, run: Run) -> bool:
        from freshline.store.read.history import OVERLAP  # noqa: PLC0415 - help must not load the driver

        queued = parse_time(run["queuedAt"])
        return run["finishedAt"] is None or self._since is None or queued >= self._since - OVERLAP


class WatchedRuns:
    """Follows runs and shows the progress of those that are running."""

    def __init__(self, follower: RunFollower, shown: Progress) -> None:
        self._follower = follower
        self._shown = shown

    def poll(self) -> list[Run]:
        """Return runs that changed since the last call."""
        moved = self._follower.poll()
        self._shown.update(self._follower.running)
        return moved


def _standing(run: Run) -> tuple[str, int]:
    return run["status"], run["attempt"]


def entries(follower: Follower[T], *, wait: Callable[[float], object] = time.sleep) -> Iterator[T]:
    """Yield entries as they happen, without end."""
    while True:
        yield from follower.poll()
        wait(POLL_S)
