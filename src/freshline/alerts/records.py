"""Records of alerts: what is wrong, incidents, and what an evaluation changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from freshline.model.alerts import LATE, AlertKind, AlertPolicy


class Node(NamedTuple):
    """Something that can be wrong or be a cause: a workflow by its slug, an asset or a proposed backfill by its id."""

    type: str  # "workflow", "asset" or "backfill"
    name: str

    @property
    def key(self) -> str:
        """Return the form in which the store keeps it."""
        return f"{self.type}:{self.name}"

    @classmethod
    def of(cls, key: str) -> Node:
        """Return the node of a stored key."""
        type_, _, name = key.partition(":")
        return cls(type_, name)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A node that something is wrong with.

    `assets`: the affected assets of each kind. `good`: per input that changed since the last success, the version
    that the success read. `produced_at`: when the oldest of its late assets was made.
    """

    node: Node
    since: datetime
    assets: Mapping[AlertKind, tuple[str, ...]]
    workflow_id: int | None = None
    project: str | None = None
    run_id: str | None = None
    failures: int = 0
    error_code: str | None = None
    error: str | None = None
    good: Mapping[str, str | None] = field(default_factory=dict)
    produced_at: datetime | None = None

    @property
    def kinds(self) -> frozenset[AlertKind]:
        """Return what is wrong."""
        return frozenset(self.assets)

    @property
    def late_only(self) -> bool:
        """Return whether no job fails, and data is only late."""
        return self.kinds <= LATE


@dataclass(frozen=True, slots=True)
class Situation:
    """All that is wrong at a time, with the root of each trouble. `exists`: whether a node is still defined."""

    troubles: Mapping[Node, Trouble]
    causes: Mapping[Node, Node]
    exists: Callable[[Node], bool]
    now: datetime


class Closing(StrEnum):
    """Why an incident ended."""

    RECOVERED = "recovered"
    REMOVED = "removed"  # its workflows and assets do not exist any more
    UNMATCHED = "unmatched"  # the rule does not cover it any more; something may still be wrong


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident of one rule. `members`: keys of all nodes that belonged to it since it was opened.

    `assets`: the first affected assets that the rule covers; `affected`: how many there are.
    `recovered_at`: since when all members are fine. `alerted_at`, `cleared_at`: when the messages were queued.
    `done_at`: nothing more will be sent about it.
    """

    id: str
    rule_id: str
    root: Node
    opened_at: datetime
    kinds: frozenset[AlertKind] = frozenset()
    members: frozenset[str] = frozenset()
    assets: tuple[str, ...] = ()
    affected: int = 0
    run_id: str | None = None
    error: str | None = None
    recovered_at: datetime | None = None
    closed_at: datetime | None = None
    closing: Closing | None = None
    alerted_at: datetime | None = None
    cleared_at: datetime | None = None
    done_at: datetime | None = None

    @property
    def open(self) -> bool:
        """Return whether it has not ended."""
        return self.closed_at is None

    def but(self, **changes: object) -> Incident:
        """Return a copy with other values."""
        return replace(self, **changes)  # type: ignore[arg-type]  # names are checked by `replace`


@dataclass(frozen=True, slots=True)
class Rule:
    """A stored rule. `project`: it covers the assets of this project; None: all. `recent`: messages of the window."""

    id: str
    name: str
    policy: AlertPolicy
    project: str | None = None
    paused: bool = False
    digested_at: datetime | None = None
    recent: int = 0


class MessageKind(StrEnum):
    """What a message says."""

    ALERT = "alert"
    CLEAR = "clear"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Planned:
    """A message to be queued, about these incidents."""

    rule_id: str
    kind: MessageKind
    incident_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The changes of one evaluation: incidents that are new or differ, messages, digests, and the next time to look."""

    incidents: tuple[Incident, ...] = ()
    messages: tuple[Planned, ...] = ()
    digested: tuple[str, ...] = ()
    next_at: datetime | None = None
