"""Decides which messages of a rule are queued now: at once, after quiet times, in a digest, or joined in one.

Nothing can cause a storm (docs/semantics.md#R15.4): a rule sends at most `BURST` messages per `WINDOW`. What comes
after that is joined in one summary per window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from freshline.alerts.records import Closing, Incident, MessageKind, Planned, Rule
from freshline.decide.times import next_point, quiet_until

BURST = 5
WINDOW = timedelta(minutes=5)
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Schedule:
    """What to queue now, the incidents as they are after that, and when to look again."""

    messages: tuple[Planned, ...] = ()
    incidents: tuple[Incident, ...] = ()
    digested: bool = False
    next_at: datetime | None = None


def plan(rule: Rule, incidents: Sequence[Incident], now: datetime) -> Schedule:
    """Return what to send about incidents of which not everything was sent. Without a message, they wait."""
    waiting = [one for one in incidents if one.done_at is None]
    due = [one for one in waiting if _due(rule, one, now)]
    later = _next_incident(rule, waiting, now)
    wait = _not_before(rule, due, now)
    if wait is not None:
        return Schedule(incidents=_finished(rule, waiting, now), next_at=_earlier(later, wait))
    messages = _messages(rule, due) if due else ()
    sent = {incident_id for one in messages for incident_id in one.incident_ids}
    after = [_noted(one, now) if one.id in sent else one for one in waiting]
    digest = rule.policy.digest is not None and _digest_due(rule, now)
    next_digest = _next_digest(rule, now) if rule.policy.digest is not None else None
    return Schedule(messages, _finished(rule, after, now), digest, _earlier(later, next_digest))


def _due(rule: Rule, incident: Incident, now: datetime) -> bool:
    """Return whether a message about the incident should be sent, if the rule may send now."""
    if incident.closing is Closing.UNMATCHED:
        return False
    if incident.alerted_at is not None:
        return not incident.open or rule.policy.digest is not None  # a digest repeats what is still wrong
    if not incident.open:
        return _missed(rule, incident)
    return incident.recovered_at is None and now >= _alert_at(rule, incident)


def _missed(rule: Rule, incident: Incident) -> bool:
    """Return whether an incident ended before its message, because the rule was silent."""
    return incident.recovered_at is not None and incident.recovered_at >= _alert_at(rule, incident)


def _alert_at(rule: Rule, incident: Incident) -> datetime:
    return incident.opened_at + timedelta(milliseconds=rule.policy.after_ms)


def _next_incident(rule: Rule, waiting: Sequence[Incident], now: datetime) -> datetime | None:
    """Return when an incident becomes old enough for a message, or was fine for long enough to end."""
    times = [_alert_at(rule, one) for one in waiting if one.alerted_at is None and one.open]
    clear = timedelta(milliseconds=rule.policy.clear_after_ms)
    times += [one.recovered_at + clear for one in waiting if one.open and one.recovered_at is not None]
    return min((at for at in times if at > now), default=None)


def _not_before(rule: Rule, due: Sequence[Incident], now: datetime) -> datetime | None:
    """Return until when the rule is silent; None if it may send now."""
    quiet = quiet_until(rule.policy.quiet, now)
    if quiet is not None:
        return quiet
    if rule.policy.digest is not None and not _digest_due(rule, now):
        return _next_digest(rule, now)
    if due and rule.recent > BURST:
        return now + WINDOW / 10
    return None


def _digest_due(rule: Rule, now: datetime) -> bool:
    digest = rule.policy.digest
    point = next_point(digest, rule.digested_at or BEGINNING) if digest and rule.digested_at else None
    return point is not None and point[0] <= now


def _next_digest(rule: Rule, now: datetime) -> datetime:
    digest = rule.policy.digest
    point = next_point(digest, now) if digest else None
    assert point is not None  # noqa: S101 - a digest has a cadence or a cron expression
    return point[0]


def _messages(rule: Rule, due: Sequence[Incident]) -> tuple[Planned, ...]:
    """Return one message per incident, or one for all: in a digest, after a burst, and for what was missed."""
    ordered = sorted(due, key=lambda one: (one.opened_at, one.id))
    missed = any(not one.open and one.alerted_at is None for one in ordered)
    if rule.policy.digest is not None or missed or rule.recent + len(ordered) > BURST:
        return (Planned(rule.id, MessageKind.SUMMARY, tuple(one.id for one in ordered)),)
    return tuple(
        Planned(rule.id, MessageKind.CLEAR if one.alerted_at else MessageKind.ALERT, (one.id,)) for one in ordered
    )


def _noted(incident: Incident, now: datetime) -> Incident:
    """Return the incident with its message noted. A message about an incident that ended says so at once."""
    alerted = incident.but(alerted_at=incident.alerted_at or now)
    return alerted if incident.open else alerted.but(cleared_at=now)


def _finished(rule: Rule, incidents: Sequence[Incident], now: datetime) -> tuple[Incident, ...]:
    """Return the incidents, marked as done where nothing more will be sent."""
    return tuple(one.but(done_at=now) if _over(rule, one) else one for one in incidents)


def _over(rule: Rule, incident: Incident) -> bool:
    if incident.open:
        return False
    nothing = incident.alerted_at is None and not _missed(rule, incident)
    return nothing or incident.cleared_at is not None or incident.closing is Closing.UNMATCHED


def _earlier(*times: datetime | None) -> datetime | None:
    return min((one for one in times if one is not None), default=None)
