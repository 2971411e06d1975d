"""Decisions and events since the last poll, as lines of the demo."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from freshline.cli.follow import DecisionFollower
from freshline.cli.render.decisions import sentence
from freshline.cli.render.format import parse_time
from freshline.cli.render.listing import ending
from freshline.cli.render.references import named, unit
from freshline.model.json import Json
from freshline.plural import counted
from freshline.store.read.reader import Reader

LATEST = 200  # events per poll: far more than happen between two polls


class Entry(NamedTuple):
    """One line of the demo."""

    at: datetime
    kind: str
    name: str
    text: str
    style: str


class Activity:
    """Yields decisions and important events, oldest first, each once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._decisions = DecisionFollower(reader, limit=1)
        self._decisions.poll()
        self._seen = {one["id"] for one in reader.events(LATEST)}
        self.failed: set[str] = set()

    def poll(self) -> list[Entry]:
        """Return what is new."""
        return sorted([*self._decided(), *self._happened()], key=lambda one: one.at)

    def _decided(self) -> Iterator[Entry]:
        styles = {"run": "bright_blue", "hold": "yellow", "error": "bold red"}
        for one in self._decisions.poll():
            # Skips say that there is nothing to do; there are too many of them to show.
            if one["outcome"] in styles:
                verb, _, text = sentence(one).partition(": ")
                yield Entry(parse_time(one["at"]), verb, unit(one), text, styles[one["outcome"]])

    def _happened(self) -> Iterator[Entry]:
        # Not a follower: it returns events in their final order, and so a moment after they are committed.
        events = [one for one in self._reader.events(LATEST) if one["id"] not in self._seen]
        self._seen |= {one["id"] for one in events}
        for event in reversed(events):
            at, data = parse_time(event["time"]), event["data"]
            if event["type"] == "asset.produced" and data["runId"]:
                yield _produced(at, data)
            elif event["type"] == "workflow.run.failed":
                self.failed.add(data["workflowSlug"])
                run = self._reader.run(data["runId"])
                yield Entry(at, "failed", unit(data), ending(run), "bold red")
            elif event["type"] == "asset.expired":
                yield Entry(at, "expired", named(data), f"its {data['reason']} ran out", "dark_orange")


def _produced(at: datetime, data: Json) -> Entry:
    if not data["changed"]:
        text = "came out identical: nothing that reads it has to run"
        return Entry(at, "same", named(data), text, "magenta")
    rows = counted(data["rows"], "row") if data["rows"] is not None else "stored outside the warehouse"
    return Entry(at, "fresh", named(data), rows, "green")
