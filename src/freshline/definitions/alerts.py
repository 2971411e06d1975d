"""Reads alert rules: the tables `[alerts.NAME]` of `freshline.toml`, and what `freshline alert add` is given."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from freshline.definitions import alert_template, names
from freshline.definitions.schema import cron
from freshline.duration import milliseconds
from freshline.errors import DefinitionError, Place
from freshline.model.alerts import AFTER_MS, CLEAR_AFTER_MS, AlertKind, AlertPolicy, AlertRule, AlertTarget, matches
from freshline.model.policy import Freshness, QuietHours
from freshline.suggest import suggestion

MOST_RULES = 100
MOST_TARGETS = 20
MOST_PATTERNS = 50
MOST_URL_CHARS = 2_000
SHORTEST_DIGEST_MS = 60_000
LONGEST_DELAY_MS = 7 * 86_400_000
FIELDS = ("on", "assets", "to", "after", "clearAfter", "quiet", "timezone", "digest", "title", "body")
# Services of Apprise that act on this machine instead of sending something: desktops, its log, its USB ports.
LOCAL = frozenset({"blink1", "dbus", "gio", "glib", "gnome", "kde", "macosx", "qt", "syslog", "windows"})
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PATTERN = re.compile(r"[A-Za-z0-9._:*-]{1,200}")
_URL = re.compile(r"([A-Za-z0-9][A-Za-z0-9+.-]{0,49})://\S+")
_QUIET = re.compile(r"(\d\d:\d\d)\s*-\s*(\d\d:\d\d)")
_TO = 'to = ["slack://…", {env = "ALERT_URL"}]'


def read_rule(name: str, data: object) -> AlertRule:
    """Return a rule. Raise `ValueError` with the first mistake; an error contains no part of an address."""
    if not NAME.fullmatch(name):
        allowed = "1-100 letters, digits and . _ -, a letter or digit first"
        raise ValueError(f"an alert cannot be called {name[:120]!r}; allowed are {allowed}")
    if not isinstance(data, Mapping):
        # One kind of error for all mistakes of users.
        raise ValueError(f"alert '{name}' is {data!r:.80}; write a table, as in [alerts.{name}]")  # noqa: TRY004
    for field in data:
        if field not in FIELDS:
            raise ValueError(
                f"alert '{name}' has an unknown field {field!r}"
                f"{suggestion(str(field), FIELDS) or f'; known are {_listed(FIELDS)}'}"
            )
    try:
        return AlertRule(name, _policy(data), tuple(_targets(data.get("to"))))
    except ValueError as error:
        raise ValueError(f"alert '{name}': {error}") from None


def target(value: object) -> AlertTarget:
    """Return an address, or the variable that holds it, as in `{env = "ALERT_URL"}`."""
    if isinstance(value, Mapping):
        if set(value) != {"env"} or not isinstance(value["env"], str):
            raise ValueError("'to' has a table; allowed is {env = \"NAME\"}")
        name = names.secret(value["env"])
        if name.startswith("FRESHLINE_"):
            raise ValueError(f"'to' names {name}; Freshline's own settings are not addresses: choose another variable")
        return AlertTarget(env=name)
    return AlertTarget(url=address(value))


def address(value: object) -> str:
    """Return an Apprise address whose service is allowed. An error shows only its scheme."""
    found = _URL.fullmatch(value) if isinstance(value, str) else None
    if found is None or len(found[0]) > MOST_URL_CHARS or not found[0].isprintable():
        raise ValueError("'to' has something that is not an address; allowed are those of Apprise, as in slack://…")
    if found[1].lower() in LOCAL:
        raise ValueError(f"'to' has {found[1]}://…, which acts on the machine of the materializer; it is not allowed")
    return found[0]


def alert_warnings(rules: Sequence[AlertRule], assets: Collection[str], file: str) -> list[DefinitionError]:
    """Return warnings about addresses with secrets in a file, and about patterns that match no asset."""
    found = []
    for rule in rules:
        place = Place(file, rule.line)
        if any(one.url is not None and _secret(one.url) for one in rule.targets):
            text = f"alert '{rule.name}' has an address in this file, and addresses contain secrets"
            hint = 'write to = {env = "NAME"}, and set NAME in the environment of the materializer'
            found.append(DefinitionError(text, place=place, hint=hint))
        for pattern in rule.policy.assets:
            if not any(matches(pattern, asset_id) for asset_id in assets):
                text = f"alert '{rule.name}': no asset of this project matches '{pattern}'"
                found.append(DefinitionError(text, place=place, hint="`freshline status` lists the assets"))
    return found


def _secret(url: str) -> bool:
    """Return whether an address may contain a secret: those of plain receivers do only with a user or a query."""
    scheme, _, rest = url.partition("://")
    return scheme.lower().rstrip("s") not in {"json", "xml", "form", "mailto"} or "@" in rest or "?" in rest


def _policy(data: Mapping[str, Any]) -> AlertPolicy:
    zone = cron.timezone(_text(data, "timezone") or "UTC")
    after = _delay(data, "after", AFTER_MS)
    return AlertPolicy(
        on=tuple(_kinds(data.get("on"))),
        assets=tuple(_patterns(data.get("assets", "*"))),
        after_ms=after,
        clear_after_ms=_delay(data, "clearAfter", CLEAR_AFTER_MS),
        quiet=tuple(_quiet(one, zone) for one in _listing(data.get("quiet", []), "quiet")),
        digest=_digest(text, zone) if (text := _text(data, "digest")) is not None else None,
        title=_template(data, "title"),
        body=_template(data, "body"),
    )


def _kinds(value: object) -> Iterator[AlertKind]:
    known = [kind.value for kind in AlertKind]
    example = 'on = ["failing", "overdue"]'
    found = _listing(value, "on") if value is not None else []
    if not found:
        raise ValueError(f"'on' is missing; write what to report, as in {example}; known are {_listed(known)}")
    for one in found:
        if one not in known:
            raise ValueError(f"'on' has {one!r}; known are {_listed(known)}")
    yield from dict.fromkeys(map(AlertKind, found))


def _patterns(value: object) -> list[str]:
    found = _listing(value, "assets")
    if not 1 <= len(found) <= MOST_PATTERNS:
        raise ValueError(f"'assets' has {len(found)} patterns; allowed are 1 to {MOST_PATTERNS}")
    for one in found:
        if not _PATTERN.fullmatch(one):
            allowed = "letters, digits and . _ : -, with * for anything"
            raise ValueError(f"'assets' has {one[:80]!r}; allowed are {allowed}, as in 'sales.*'")
    return found


def _targets(value: object) -> Iterator[AlertTarget]:
    found = list(value) if isinstance(value, list | tuple) else [value] if value is not None else []
    if not 1 <= len(found) <= MOST_TARGETS:
        raise ValueError(f"'to' has {len(found)} addresses; allowed are 1 to {MOST_TARGETS}, as in {_TO}")
    yield from map(target, found)


def _quiet(text: str, zone: str) -> QuietHours:
    found = _QUIET.fullmatch(text)
    if found is None:
        raise ValueError(f"'quiet' is {text[:80]!r}; allowed are times as in \"22:00-07:00\"")
    start, end = (cron.time_of_day(one) for one in found.groups())
    if start == end:
        raise ValueError(f"'quiet' is {text!r}, a whole day; pause the alert instead: `freshline alert pause`")
    return QuietHours(start, end, timezone=zone)


def _digest(text: str, zone: str) -> Freshness:
    allowed = "allowed are 'daily 08:00', a duration such as '4h', and a cron expression"
    daily = re.fullmatch(r"daily\s+(\d\d):(\d\d)", text)
    if daily:
        cron.time_of_day(f"{daily[1]}:{daily[2]}")
        return Freshness(cron=f"{int(daily[2])} {int(daily[1])} * * *", timezone=zone)
    if " " in text.strip():
        try:
            return Freshness(cron=cron.expression(text.strip()), timezone=zone)
        except ValueError as error:
            raise ValueError(f"'digest' is {text[:80]!r}; {allowed}: {error}") from None
    try:
        period = milliseconds(text)
    except ValueError:
        raise ValueError(f"'digest' is {text[:80]!r}; {allowed}") from None
    if period < SHORTEST_DIGEST_MS:
        raise ValueError(f"'digest' is {text[:80]!r}; the shortest is 1m")
    return Freshness(cadence_ms=period)


def _delay(data: Mapping[str, Any], field: str, default: int) -> int:
    text = _text(data, field)
    if text is None:
        return default
    found = milliseconds(text)
    if found > LONGEST_DELAY_MS:
        raise ValueError(f"'{field}' is {text!r}; the longest is 7d")
    return found


def _template(data: Mapping[str, Any], field: str) -> str | None:
    text = _text(data, field)
    try:
        return None if text is None else alert_template.check(text)
    except ValueError as error:
        raise ValueError(f"'{field}': {error}") from None


def _text(data: Mapping[str, Any], field: str) -> str | None:
    value = data.get(field)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"'{field}' is {value!r:.80}; write a text in quotes")
    return value


def _listing(value: object, field: str) -> list[str]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"'{field}' is {value!r:.80}; write a text or a list of texts")
    return list(found)


def _listed(known: Sequence[str]) -> str:
    return f"{', '.join(known[:-1])} and {known[-1]}"
