"""What the store says has happened since the last look, in words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from freshline.cli.follow import DecisionFollower
from freshline.cli.render.decisions import sentence
from freshline.cli.render.format import number, parse_time
from freshline.cli.render.rows import ending
from freshline.store.read.reader import Reader

Json = dict[str, Any]

LATEST = 200  # events per look: far more than happen between two looks


class Happening(NamedTuple):
    """One line of the story."""

    at: datetime
    kind: str
    name: str
    told: str
    style: str


class Happenings:
    """Decisions and the events that matter, oldest first, each once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._decisions = DecisionFollower(reader, limit=1)
        self._decisions.poll()
        self._seen = {one["id"] for one in reader.events(LATEST)}
        self.failed: set[str] = set()

    def poll(self) -> list[Happening]:
        """What is new."""
        return sorted([*self._decided(), *self._done()], key=lambda one: one.at)

    def _decided(self) -> Iterator[Happening]:
        styles = {"run": "bright_blue", "hold": "yellow", "error": "bold red"}
        for one in self._decisions.poll():
            # Skips say that there is nothing to do; they are stored too, and too many to be shown.
            if one["outcome"] in styles:
                verb, _, told = sentence(one).partition(": ")
                yield Happening(parse_time(one["at"]), verb, one["workflowSlug"], told, styles[one["outcome"]])

    def _done(self) -> Iterator[Happening]:
        # Not a follower: that one gives events in their final order, and so a moment later than they are true.
        events = [one for one in self._reader.events(LATEST) if one["id"] not in self._seen]
        self._seen |= {one["id"] for one in events}
        for event in reversed(events):
            at, data = parse_time(event["time"]), event["data"]
            if event["type"] == "asset.produced" and data["runId"]:
                yield self._produced(at, data)
            elif event["type"] == "workflow.run.failed":
                self.failed.add(data["workflowSlug"])
                run = self._reader.run(data["runId"])
                yield Happening(at, "failed", data["workflowSlug"], ending(run), "bold red")
            elif event["type"] == "asset.expired":
                yield Happening(at, "expired", data["assetId"], f"its {data['reason']} ran out", "dark_orange")

    def _produced(self, at: datetime, data: Json) -> Happening:
        if not data["changed"]:
            told = "came out identical: nothing that reads it has to run"
            return Happening(at, "same", data["assetId"], told, "magenta")
        rows = f"{number(data['rows'])} rows" if data["rows"] is not None else "kept elsewhere"
        return Happening(at, "fresh", data["assetId"], rows, "green")
