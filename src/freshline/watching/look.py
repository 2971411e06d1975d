"""One look at a source: what a watcher gets, what it returns, and the dispatch to its kind.

A look only reads. The store writes what it found, and its position, in one transaction, so that a look that is
repeated after a crash repeats no report and loses none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import cast

from freshline.definitions.schema.watch import Variable, Watch
from freshline.errors import FreshlineError
from freshline.masking import Secrets
from freshline.model.allowed_paths import AllowedPaths
from freshline.model.json import Json
from freshline.model.watch import MAX_FOUND, Conflict, Found, Look, Mode
from freshline.partitions import Partitioning
from freshline.settings import Network
from freshline.watching.seen import SeenFiles

__all__ = [
    "MAX_FOUND",
    "Conflict",
    "Found",
    "Look",
    "LookContext",
    "LookError",
    "Mode",
    "SourcePartitions",
    "look",
    "masked",
    "missing_extra",
]

MAX_ERROR_CHARS = 1_000


class LookError(FreshlineError):
    """A look that cannot say what is there: a sentence without credentials and without content of the source."""

    code = "watch"


@dataclass(frozen=True, slots=True)
class SourcePartitions:
    """The partitions of the source of a look.

    `path`: where the data of a partition is, with `{partitionKey}`; None if it is not declared. `read_known` reads the
    keys of dynamic partitions that exist.
    """

    partitioning: Partitioning
    path: str | None
    read_known: Callable[[], Iterable[str]] = tuple


@dataclass(frozen=True, slots=True)
class LookContext:
    """What a look may use.

    `now`: the database's time. `allowed`: the paths that the source may name. `closed`: files that were closed or moved
    in since the last look, if only they have to be looked at. `timeout_s`: for the calls of the kind. `partitions`:
    None for a source without.
    """

    asset_id: str
    now: datetime
    allowed: AllowedPaths
    timeout_s: float
    seen: SeenFiles | None = None
    closed: frozenset[str] | None = None
    partitions: SourcePartitions | None = None
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
