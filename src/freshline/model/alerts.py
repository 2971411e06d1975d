"""Alert rules: what is reported to whom, and when. `definitions.alerts` reads them, `alerts` applies them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from freshline.model.policy import Freshness, QuietHours

AFTER_MS = 0
CLEAR_AFTER_MS = 60_000


class AlertKind(StrEnum):
    """What can be wrong. A new kind needs a statement in store/sql/alerts.sql, a part of the digest, and a sentence."""

    FAILING = "failing"
    OVERDUE = "overdue"
    BREAKER = "breaker"
    CHECK_FAILED = "check-failed"
    WATCH_FAILED = "watch-failed"
    BACKFILL_PROPOSED = "backfill-proposed"


# What makes data late, and makes no job fail.
LATE = frozenset({AlertKind.OVERDUE, AlertKind.WATCH_FAILED})


@dataclass(frozen=True, slots=True)
class AlertTarget:
    """An Apprise address, or the name of the environment variable of the materializer that holds it.

    An address contains secrets: a token or a password. `repr` omits it.
    """

    url: str | None = field(default=None, repr=False)
    env: str | None = None

    @property
    def shown(self) -> str:
        """Return the target without its secrets: `slack://***` or `$NAME`."""
        return f"${self.env}" if self.env else f"{(self.url or '').partition('://')[0]}://***"


@dataclass(frozen=True, slots=True)
class AlertPolicy:
    """What a rule reports, and when. Patterns match whole asset ids; `*` matches anything.

    `after_ms`: how long something must be wrong before a message. `clear_after_ms`: how long all must be fine before
    the incident ends. `digest`: the times of summaries; None: messages are sent at once.
    """

    on: tuple[AlertKind, ...]
    assets: tuple[str, ...] = ("*",)
    after_ms: int = AFTER_MS
    clear_after_ms: int = CLEAR_AFTER_MS
    quiet: tuple[QuietHours, ...] = ()
    digest: Freshness | None = None
    title: str | None = None
    body: str | None = None

    def matches(self, asset_id: str) -> bool:
        """Return whether a pattern matches the asset."""
        return any(matches(pattern, asset_id) for pattern in self.assets)


@dataclass(frozen=True, slots=True)
class AlertRule:
    """A rule as users write it. `line`: where it begins in `freshline.toml`."""

    name: str
    policy: AlertPolicy
    targets: tuple[AlertTarget, ...]
    line: int | None = None


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a whole name. Only `*` is special, as in the filters of webhooks."""
    return pattern == "*" or fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]"))
