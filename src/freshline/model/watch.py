"""What a look at a source returns, and what is stored of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any, Literal
from uuid import UUID

from freshline.model.json import Json

MAX_FOUND = 1_000  # per look, which is one transaction

Mode = Literal["snapshot", "append"]
FileState = Literal["delivered", "ignored", "changed"]


@dataclass(frozen=True, slots=True)
class Found:
    """One thing to report.

    `key` identifies a delivery for ever: a repetition changes nothing. `data_version`: of a snapshot source; None for a
    delivery. `payload`: what `freshline report --payload` would hold. `partition_key`: empty for a source without
    partitions.
    """

    key: str
    data_version: str | None
    payload: Mapping[str, Any]
    occurred_at: datetime | None = None
    partition_key: str = ""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Something that is not delivered: it has changed after its delivery, cannot be one, or belongs to no partition."""

    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file that a look has seen. `version`: its ETag, or the time of its last change.

    `was`: size and version of a changed file when it was delivered.
    """

    path: str
    size: int
    version: str
    state: FileState
    was: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """The result of a look.

    `found`: in the order in which to report it, at most `MAX_FOUND`. `position`: opaque to everybody but the kind; it
    is stored in the transaction of the reports. `summary`: one sentence for `watch show`. `more`: look again at once.
    `again_ms`: look again after this time if that is sooner than `every`. `seen`: files whose stored state changes.
    `partial`: only a part was looked at, so earlier conflicts still count.
    """

    found: tuple[Found, ...]
    position: Json
    summary: str
    conflicts: tuple[Conflict, ...] = ()
    more: bool = False
    again_ms: int | None = None
    seen: tuple[SeenFile, ...] = ()
    partial: bool = False


def path_number(path: str) -> int:
    """Return the key of a path: 128 bits, so that two paths never share one."""
    return int.from_bytes(blake2b(path.encode("utf-8", "surrogateescape"), digest_size=16).digest(), "big")


def path_key(path: str) -> UUID:
    """Return the key of a path as it is stored."""
    return UUID(int=path_number(path))


def identity(size: int, version: str) -> int:
    """Return 64 bits that change when a file changes, as a signed number."""
    text = f"{size} {version}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)
