"""One look at a source: what a watcher gets, what it returns, and the dispatch to its kind.

A look only reads. The store writes what it found, and its position, in one transaction, so that a look that is
repeated after a crash repeats no report and loses none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import Any, Literal, Protocol, cast

from freshline.definitions.schema.watch import Variable, Watch
from freshline.errors import FreshlineError
from freshline.masking import Secrets
from freshline.model.allowed_paths import AllowedPaths
from freshline.model.json import Json
from freshline.settings import Network

MAX_FOUND = 1_000  # per look, which is one transaction
MAX_CONFLICTS = 100
MAX_ERROR_CHARS = 1_000

Mode = Literal["snapshot", "append"]
FileState = Literal["settling", "delivered", "ignored", "changed"]


class LookError(FreshlineError):
    """A look that cannot say what is there: a sentence without credentials and without content of the source."""

    code = "watch"


@dataclass(frozen=True, slots=True)
class Found:
    """One thing to report.

    `key` identifies it for ever: a repetition changes nothing. `data_version`: of a snapshot source; None for a
    delivery. `payload`: what `freshline report --payload` would hold.
    """

    key: str
    data_version: str | None
    payload: Mapping[str, Any]
    occurred_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """Something that was delivered and has changed since. It is shown, and not delivered again."""

    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file that a look has seen. `version`: its ETag, or the time of its last change."""

    path: str
    size: int
    version: str
    state: FileState
    seen_at: datetime | None = None  # None: now, by the clock of the transaction that stores it


class SeenFiles(Protocol):
    """The files that earlier looks of a source have seen."""

    def has(self, fingerprint: int) -> bool:
        """Return whether a file with this fingerprint was delivered or ignored; no database is asked."""

    def rows(self, paths: Collection[str]) -> Mapping[str, SeenFile]:
        """Return what is stored of these files, by path."""

    def unfinished(self) -> Collection[SeenFile]:
        """Return the files that are settling, and those that have changed after they were delivered."""


@dataclass(frozen=True, slots=True)
class Look:
    """The result of a look.

    `found`: in the order in which to report it, at most `MAX_FOUND`. `position`: opaque to everybody but the kind; it
    is stored in the transaction of the reports. `summary`: one sentence for `watch show`. `more`: look again at once.
    `again_ms`: look again after this time if that is sooner than `every`. `seen`: files whose stored state changes.
    """

    found: tuple[Found, ...]
    position: Json
    summary: str
    conflicts: tuple[Conflict, ...] = ()
    more: bool = False
    again_ms: int | None = None
    seen: tuple[SeenFile, ...] = ()


@dataclass(frozen=True, slots=True)
class LookContext:
    """What a look may use.

    `now`: the database's time. `allowed`: the paths that the source may name. `closed`: files that were closed or moved
    in since the last look, if only they have to be looked at. `timeout_s`: for the calls of the kind.
    """

    asset_id: str
    now: datetime
    allowed: AllowedPaths
    timeout_s: float
    seen: SeenFiles | None = None
    closed: frozenset[str] | None = None
    private_networks: tuple[Network, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def secret(self, variable: Variable, field_name: str) -> str:
        """Return the value of an environment variable. Raise `LookError` if it is not set."""
        value = self.environment.get(variable.env)
        if not value:
            raise LookError(
                f"'{field_name}' names the variable {variable.env}, which is not set in the process that looks",
                hint=f"set {variable.env} for `freshline materializer`, and start it again",
            )
        return value


LookFunction = Callable[[Watch, Mode, "Json | None", LookContext], Look]


def look(spec: Watch, mode: Mode, position: Json | None, context: LookContext) -> Look:
    """Look at a source. Raise `LookError` if that fails. The module of the kind is imported only here."""
    module = import_module(f"freshline.watching.{spec.kind}")
    return cast("LookFunction", module.look)(spec, mode, position, context)


def masked(text: str, secrets: Collection[str]) -> str:
    """Return the text of an error in one line, shortened, with secret values hidden."""
    return Secrets(secrets).hide(" ".join(text.split()))[:MAX_ERROR_CHARS]


def missing_extra(what: str, package: str, extra: str) -> LookError:
    """Return the error of a kind whose package is not installed."""
    return LookError(
        f"{what} needs the package {package}, which is not installed", hint=f"pip install 'freshline[{extra}]'"
    )
