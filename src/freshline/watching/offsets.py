"""The offsets of a topic: which ranges are new since a position, and what happens when they do not fit together.

Pure. The position holds the next offset of each partition, so each record is in exactly one delivery. Three things
break the order of offsets, and each is a conflict that is shown for a week: records that retention deleted before they
were delivered, a topic that was created again, and another cluster behind the same address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypedDict, cast

from freshline.model.json import Json
from freshline.plural import counted
from freshline.watching.look import Found, Look, LookContext, Mode
from freshline.watching.notes import Note, conflicts, kept, note
from freshline.watching.watermark import key


class Ends(NamedTuple):
    """The first offset that a partition has, and the one that its next record gets."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now. `cluster`: the id of the cluster; None if it has none."""

    name: str
    cluster: str | None
    partitions: Mapping[int, Ends]


class Position(TypedDict):
    """The next offsets of a topic. `generation`: how often they began again. `since`: the first look."""

    topic: str
    next: dict[str, int]
    cluster: str | None
    generation: int
    number: int
    since: str
    version: str | None
    notes: list[Note]


def compare(
    mode: Mode, stored: Json | None, topic: Topic, context: LookContext, *, ignore_existing: bool = False
) -> Look:
    """Return what is new since the stored position, and the next position.

    `ignore_existing`: the first look of an append source delivers nothing.
    """
    if stored is None and mode == "append" and ignore_existing:
        return _ignored(topic, context)
    before = _position(stored, topic, context)
    current, notes = _continued(before, topic, context) if mode == "append" else (before, [])
    starts = {number: current["next"].get(str(number), ends.low) for number, ends in topic.partitions.items()}
    ranges = {str(one): [start, topic.partitions[one].high] for one, start in starts.items()}
    ranges = {one: pair for one, pair in ranges.items() if pair[0] < pair[1]}
    notes = kept([*current["notes"], *notes], context)
    highs = {str(number): ends.high for number, ends in topic.partitions.items()}
    # A partition that is missing for a moment is not new when it comes back.
    after: Position = {**current, "next": {**current["next"], **highs}, "cluster": topic.cluster, "notes": notes}
    after = {**after, "topic": topic.name}
    records = sum(end - start for start, end in ranges.values())
    found = _delivery(topic, after, ranges) if mode == "append" else _version(topic, after, highs)
    return Look(
        (found,) if found else (),
        cast("Json", {**after, "number": after["number"] + 1, "version": found.data_version} if found else after),
        f"Topic {topic.name} has {counted(len(highs), 'partition')}, and {counted(records, 'new record')}.",
        conflicts(notes),
    )


def _ignored(topic: Topic, context: LookContext) -> Look:
    ends = {str(number): one.high for number, one in topic.partitions.items()}
    first: Position = {**_position(None, topic, context), "next": ends, "cluster": topic.cluster}
    return Look((), cast("Json", first), f"Topic {topic.name} has records that existed at the first look: ignored.")


def _position(stored: Json | None, topic: Topic, context: LookContext) -> Position:
    if stored is not None:
        return cast("Position", stored)
    return {
        "topic": topic.name,
        "next": {},
        "cluster": None,
        "generation": 0,
        "number": 0,
        "since": context.now.isoformat(),
        "version": None,
        "notes": [],
    }


def _continued(before: Position, topic: Topic, context: LookContext) -> tuple[Position, list[Note]]:
    """Return the position to continue from, and a note for each thing that does not fit to it."""
    why = _began_again(before, topic)
    if why:
        message = f"{why} All records that the topic has now are delivered, from the first one on."
        again: Position = {**before, "next": {}, "generation": before["generation"] + 1}
        return again, [note(topic.name, message, context)]
    moved, notes = dict(before["next"]), list[Note]()
    for number, ends in sorted(topic.partitions.items()):
        start = moved.get(str(number), ends.low)
        if start < ends.low:
            lost = ends.low - start
            message = (
                f"{counted(lost, 'record')} of partition {number}, offsets {start} to {ends.low - 1}, "
                f"{'was' if lost == 1 else 'were'} deleted before they were delivered. "
                "Retention of the topic was shorter than the pause between two looks."
            )
            notes.append(note(f"{topic.name}/{number}", message, context))
            moved[str(number)] = ends.low
    return {**before, "next": moved}, notes


def _began_again(before: Position, topic: Topic) -> str | None:
    """Return why the stored offsets say nothing about this topic; None if they do."""
    if before["topic"] != topic.name:
        return f"The watch follows topic {topic.name} now; it followed {before['topic']}."
    if before["cluster"] and topic.cluster and before["cluster"] != topic.cluster:
        return f"The cluster is now {topic.cluster}; it was {before['cluster']}."
    for number, ends in sorted(topic.partitions.items()):
        start = before["next"].get(str(number), 0)
        if ends.high < start:
            return (
                f"Partition {number} ends at offset {ends.high}, and offsets up to {start - 1} were delivered: the "
                "topic was created again, or its brokers lost records."
            )
    return None


def _delivery(topic: Topic, after: Position, ranges: Mapping[str, list[int]]) -> Found | None:
    if not ranges:
        return None
    parts = [topic.name, *(f"{number}:{start}-{end}" for number, (start, end) in sorted(ranges.items()))]
    payload = {"topic": topic.name, "ranges": dict(ranges)}
    return Found(key(after["generation"], *parts), None, payload)


def _version(topic: Topic, after: Position, highs: Mapping[str, int]) -> Found | None:
    ends = [f"{number}:{high}" for number, high in sorted(highs.items())]
    version = key(len(highs), topic.name, topic.cluster, *ends)
    if version == after["version"]:
        return None
    identity = key(after["number"], after["since"], version)
    return Found(identity, version, {"topic": topic.name, "offsets": dict(highs)})
