"""Alerts, their incidents and messages. No document contains an address."""

from __future__ import annotations

from typing import Literal, TypedDict

from freshline.model.json import Json


class Alert(TypedDict):
    """An alert rule and its state. `to`: the addresses without secrets. `project`: None if a command added it."""

    id: str
    name: str
    project: str | None
    on: list[str]
    assets: list[str]
    to: list[str]
    afterMs: int
    clearAfterMs: int
    quiet: list[Json]
    digest: Json | None
    titleTemplate: str | None
    bodyTemplate: str | None
    createdAt: str
    paused: bool
    open: int
    waiting: int
    dead: int
    sent: int
    trouble: str | None


class AlertIncident(TypedDict):
    """An incident of a rule. `root`: the workflow or asset that caused it.

    `assets`: the first affected assets that the rule covers; `affected`: how many there are now. `members`: how many
    workflows and sources belonged to it so far.
    """

    id: str
    rootType: Literal["workflow", "asset"]
    root: str
    kinds: list[str]
    assets: list[str]
    affected: int
    members: int
    error: str | None
    runId: str | None
    openedAt: str
    recoveredAt: str | None
    closedAt: str | None
    closing: str | None
    alertedAt: str | None
    clearedAt: str | None


class AlertMessage(TypedDict):
    """A message of a rule to one address. `incidents`: their ids."""

    number: int
    kind: str
    to: str
    title: str | None
    state: Literal["waiting", "sent", "dead"]
    incidents: list[str]
    createdAt: str
    attempts: int
    nextAttemptAt: str | None
    sentAt: str | None
    trouble: str | None


class AlertTest(TypedDict):
    """The result of a test message to one address."""

    to: str
    sent: bool
    trouble: str | None
