"""Backoff and breaker over long times: a small loop that does what the store does with failures.

See docs/semantics.md#R7.2, docs/semantics.md#R7.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from freshline.model.policy import Backoff
from freshline.model.state import Failures
from tests.decide.builders import HOUR, MINUTE, Scenario, clock, given

START = clock("00:00")


@dataclass
class Patient:
    """A workflow that always fails at once; `opened` counts the incidents."""

    backoff: Backoff
    failures: Failures = field(default_factory=Failures)
    opened: int = 0

    def scenario(self, version: int, now: datetime) -> Scenario:
        """Return the scenario of a workflow with a changed input."""
        base = given(backoff=self.backoff).input("a", head=str(version), read="0", at=now).output("b")
        return base.facts(failures=self.failures).at(now)

    def fail(self, version: int, now: datetime) -> None:
        """As the store counts: the cooldown doubles, the breaker opens once (docs/semantics.md#R7.2)."""
        count = self.failures.count + 1
        longest, base = self.backoff.max_ms or 0, self.backoff.base_ms or 0
        eligible = now + timedelta(milliseconds=min(longest, base * 2 ** min(count - 1, 40)))
        breaker = self.failures.breaker_at
        if breaker is None and count >= self.backoff.budget:
            breaker, self.opened = now, self.opened + 1
        self.failures = Failures(count, now, eligible, breaker, {"a": str(version)})


def runs(patient: Patient, days: int, every: timedelta | None) -> Iterator[datetime]:
    """Return the times of runs. The workflow is evaluated when its hold says, and on new data."""
    now, version, end = START, 1, START + timedelta(days=days)
    arrival = START + every if every else end
    while now < end:
        decision = patient.scenario(version, now).decide()
        if decision.run is not None:
            yield now
            patient.fail(version, now)
            continue
        assert decision.next_evaluation is not None
        assert decision.next_evaluation > now
        now = min(decision.next_evaluation, arrival)
        if now == arrival and every:
            version, arrival = version + 1, arrival + every


@pytest.mark.parametrize(
    ("backoff", "days"),
    [
        (Backoff(2 * MINUTE, 30 * MINUTE), 14),
        (Backoff(1, MINUTE * 10, budget=1), 2),
        (Backoff(HOUR, HOUR, budget=20), 2),
        (Backoff(MINUTE, 2 * HOUR, budget=3, probe_ms=MINUTE), 2),
    ],
)
def test_fourteen_days_of_failures_are_bounded(backoff: Backoff, days: int) -> None:
    """New input every minute, failing always: runs <= budget + T/maxMs + 1, and one incident.

    See docs/scenarios.md#scenario-16.
    """
    patient = Patient(backoff)
    found = list(runs(patient, days, timedelta(minutes=1)))
    assert len(found) <= backoff.budget + days * 24 * HOUR / (backoff.max_ms or 1) + 1
    assert len(found) > backoff.budget, "it never probes"
    assert patient.opened == 1


def test_without_new_data_a_probe_comes_rarely() -> None:
    """Every `probeMs`, six hours by default (docs/semantics.md#R7.3)."""
    patient = Patient(Backoff(MINUTE, 30 * MINUTE))
    found = list(runs(patient, 3, None))
    assert {later - earlier for earlier, later in pairwise(found[4:])} == {timedelta(hours=6)}
    assert len(found) == 5 + 11


def test_cooldowns_double_up_to_the_longest() -> None:
    """It is min(maxMs, baseMs * 2^(n-1)) after the n-th failure (docs/semantics.md#R7.2)."""
    patient = Patient(Backoff(2 * MINUTE, 30 * MINUTE, budget=100))
    found = list(runs(patient, 1, None))
    minutes = [(later - earlier) / timedelta(minutes=1) for earlier, later in pairwise(found)]
    assert minutes[:6] == [2, 4, 8, 16, 30, 30]


def test_a_restart_changes_nothing() -> None:
    """What is known is in the state; looking again and again gives no run before the cooldown ends.

    See docs/scenarios.md#scenario-17.
    """
    patient = Patient(Backoff(10 * MINUTE, 30 * MINUTE))
    patient.fail(1, START)
    for second in range(0, 600, 7):
        now = START + timedelta(seconds=second)
        assert patient.scenario(1, now).decides("hold", "cooling-down").next_evaluation == START + timedelta(minutes=10)
    patient.scenario(1, START + timedelta(minutes=10)).decides("run", "retry")


def test_new_data_does_not_close_the_breaker() -> None:
    """A probe that fails leaves everything as it was: no second incident, and the next probe is as far away."""
    patient = Patient(Backoff(MINUTE, 30 * MINUTE, budget=2))
    found = list(runs(patient, 1, timedelta(minutes=1)))
    assert patient.opened == 1
    gaps = {later - earlier for earlier, later in pairwise(found[2:])}
    assert gaps == {timedelta(minutes=30)}


def test_a_success_closes_it() -> None:
    """Without failures the next update runs at once."""
    patient = Patient(Backoff(MINUTE, 30 * MINUTE, budget=1))
    patient.fail(1, START)
    patient.scenario(2, START).decides("hold", "breaker-open")
    cured = replace(patient, failures=Failures())
    cured.scenario(2, START).decides("run", "upstream-update")
