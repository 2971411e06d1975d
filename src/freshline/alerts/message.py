"""The texts of messages: what happened, the answer of `why`, and the commands to run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from freshline.alerts.records import Closing, Incident, MessageKind, Node
from freshline.definitions.alert_template import fill
from freshline.duration import in_words
from freshline.model.alerts import AlertKind

MOST_TITLE = 200
MOST_BODY = 8_000
MOST_NAMES = 5
MOST_LINES = 50
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# The first kind that an incident has is the one that its title names.
_ORDER = (
    AlertKind.CHECK_FAILED,
    AlertKind.BREAKER,
    AlertKind.FAILING,
    AlertKind.WATCH_FAILED,
    AlertKind.OVERDUE,
    AlertKind.BACKFILL_PROPOSED,
)
_STATES = {
    AlertKind.CHECK_FAILED: "a check of {} failed",
    AlertKind.BREAKER: "{} fails, and its breaker is open",
    AlertKind.FAILING: "{} is failing",
    AlertKind.OVERDUE: "{} is overdue",
}
_SHARED = {
    AlertKind.WATCH_FAILED: "the watcher of {} fails",
    AlertKind.OVERDUE: "assets that are made from {} are overdue: it was not reported",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a message about an incident says. `downstream`: assets that wait for it. `why`: the answer of `why`."""

    incident: Incident
    downstream: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A message."""

    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Frame:
    """The rule's own words: its name, and its templates if it has them."""

    rule: str
    title: str | None = None
    body: str | None = None


def write(kind: MessageKind, facts: Sequence[Facts], frame: Frame, now: datetime) -> Text:
    """Return the text of a message about one incident, or of a summary."""
    if kind is MessageKind.SUMMARY or len(facts) != 1:
        return _bounded(*_summary(facts, frame, now))
    values = _values(facts[0], frame, now)
    title, body = (_clear if kind is MessageKind.CLEAR else _alert)(facts[0], values)
    return _bounded(
        fill(frame.title, values) if frame.title else title, fill(frame.body, values) if frame.body else body
    )


def trial(rule: str, now: datetime) -> Text:
    """Return the text of a test."""
    return _bounded(
        "Freshline: a test of alerts",
        f"This is a test of {rule}, sent by `freshline alert test` at {_moment(now)}. Nothing is wrong.",
    )


def commands(incident: Incident) -> list[str]:
    """Return what to run, the explanation first."""
    name = incident.root.name
    if incident.root.type == "backfill":
        return [f"freshline backfill {one} {name}" for one in ("show", "approve", "deny")]
    if incident.root.key in incident.members and incident.root.type == "asset":
        return [f"freshline watch show {name}"]
    if incident.root.type == "asset":
        first = next((Node.of(key).name for key in sorted(incident.members)), name)
        return [f"freshline why {first}", f"freshline show {name}"]
    found = [f"freshline why {name}"]
    if incident.run_id:
        found.append(f"freshline logs {incident.run_id}")
    failed = incident.kinds & {AlertKind.FAILING, AlertKind.BREAKER, AlertKind.CHECK_FAILED}
    return [*found, f"freshline reset {name}"] if failed else found


def what_happened(incident: Incident) -> str:
    """Return the title of an incident without the name of the program."""
    kind = next((one for one in _ORDER if one in incident.kinds), AlertKind.FAILING)
    root = incident.root
    if root.type == "backfill":
        return f"{_subject(incident)} waits for an approval"
    if root.type == "asset":
        return _SHARED.get(kind, "workflows that read {} are failing").format(root.name)
    if kind is not AlertKind.OVERDUE or not incident.assets:
        return _STATES[kind].format(f"workflow '{root.name}'")
    late = f"{_affected(incident)} {'is' if incident.affected <= 1 else 'are'} overdue"
    return late if root.key in incident.members else f"{late}, because workflow '{root.name}' fails"


def _alert(facts: Facts, values: dict[str, str]) -> tuple[str, str]:
    incident = facts.incident
    lines = [_sentence(f"{values['what']}: {incident.error}" if incident.error else values["what"])]
    if facts.downstream:
        waits = "1 asset downstream waits" if facts.downstream == 1 else f"{facts.downstream} assets downstream wait"
        lines.append(f"{waits} for it.")
    if incident.assets:
        lines.append(f"Affected: {_affected(incident)}.")
    if facts.why:
        lines += ["", "Why:", *(f"  {line}" for line in facts.why.strip().splitlines())]
    lines += ["", "What to run:", *(f"  {one}" for one in commands(incident)), "", _footer(values)]
    return f"Freshline: {values['what']}", "\n".join(lines)


def _clear(facts: Facts, values: dict[str, str]) -> tuple[str, str]:
    incident = facts.incident
    lasted = in_words((incident.closed_at - incident.opened_at).total_seconds()) if incident.closed_at else ""
    subject = _subject(incident)
    ending = "was removed" if incident.closing is Closing.REMOVED else "is fine again"
    if incident.root.type == "backfill":
        ending = "waits no longer"
    lines = [
        f"{_sentence(f'{subject} {ending}')} The incident ({values['kind']}) lasted {lasted}.",
        "",
        _footer(values),
    ]
    return f"Freshline: {subject} {ending}", "\n".join(lines)


def _summary(facts: Sequence[Facts], frame: Frame, now: datetime) -> tuple[str, str]:
    begun = [one for one in facts if one.incident.open]
    ended = [one for one in facts if not one.incident.open]
    parts = [f"{_count(len(begun), 'incident')} open"] if begun else []
    parts += [f"{_count(len(ended), 'incident') if not begun else len(ended)} ended"] if ended else []
    lines = []
    for heading, some in (("Open:", begun), ("Ended:", ended)):
        if some:
            lines += [heading, *(_line(one, now) for one in some[:MOST_LINES])]
            lines += [f"  and {len(some) - MOST_LINES} more; see `freshline alert show {frame.rule}`"] * (
                len(some) > MOST_LINES
            )
            lines.append("")
    lines.append(f"Rule {frame.rule}. `freshline alert show {frame.rule}` lists all incidents.")
    return f"Freshline: {', '.join(parts) or 'nothing is wrong'}", "\n".join(lines)


def _line(facts: Facts, now: datetime) -> str:
    incident = facts.incident
    end = incident.recovered_at or incident.closed_at or now
    lasted = in_words(max((end - incident.opened_at).total_seconds(), 0))
    waiting = f", {_count(facts.downstream, 'asset')} downstream" if facts.downstream and incident.open else ""
    return (
        f"  {what_happened(incident)} (since {_moment(incident.opened_at)}, {lasted}{waiting}): {commands(incident)[0]}"
    )


def _values(facts: Facts, frame: Frame, now: datetime) -> dict[str, str]:
    incident = facts.incident
    return {
        "rule": frame.rule,
        "state": "open" if incident.open else str(incident.closing or "closed"),
        "kind": ", ".join(one.value for one in _ORDER if one in incident.kinds),
        "root": incident.root.name,
        "what": what_happened(incident),
        "error": incident.error or "",
        "run": incident.run_id or "",
        "assets": _affected(incident),
        "affected": str(incident.affected),
        "downstream": str(facts.downstream),
        "why": facts.why.strip(),
        "commands": "\n".join(commands(incident)),
        "incident": incident.id,
        "since": _moment(incident.opened_at),
        "now": _moment(now),
    }


def _subject(incident: Incident) -> str:
    if incident.root.type == "backfill":
        return f"a backfill of {incident.assets[0] if incident.assets else incident.root.name}"
    if incident.root.type == "asset":
        watched = incident.root.key in incident.members
        return f"the watcher of {incident.root.name}" if watched else f"what is made from {incident.root.name}"
    return f"workflow '{incident.root.name}'"


def _footer(values: dict[str, str]) -> str:
    return f"Rule {values['rule']}, incident {values['incident']}, since {values['since']}."


def _affected(incident: Incident) -> str:
    shown = incident.assets[:MOST_NAMES]
    more = incident.affected - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _sentence(text: str) -> str:
    text = text.strip()
    return (text[:1].upper() + text[1:]) + ("" if text.endswith((".", "!", "?")) else ".")


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _bounded(title: str, body: str) -> Text:
    """Return a text of bounded length without control characters; a title is one line."""
    line = " ".join(_CONTROL.sub("", title).split())
    text = _CONTROL.sub("", body.replace("\r\n", "\n"))
    return Text(
        line if len(line) <= MOST_TITLE else f"{line[: MOST_TITLE - 1]}…",
        text if len(text) <= MOST_BODY else f"{text[: MOST_BODY - 1]}…",
    )
