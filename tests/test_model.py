"""The enums, the transition table of a run, and the JSON form of policies."""

from __future__ import annotations

import json
import re

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freshline.errors import JobError
from freshline.model.deliveries import Deliveries, Delivery, DeliveryRange
from freshline.model.enums import ACTIVE, BLOCKING_HOLDS, TRANSITIONS, Outcome, Reason, RunStatus, TriggerType, When
from freshline.model.policy import Backoff, Freshness, InputPolicy, OutputPolicy, Policy, QuietHours

# The reason codes that are documented for users.
RUN = {"missing", "retry", "definition-changed", "upstream-update", "expired", "backfill"}
HOLD = {
    "input-retired",
    "frozen",
    "backfill-proposed",
    "in-flight",
    "paused",
    "breaker-open",
    "cooling-down",
    "canceled",
    "quiet-hours",
    "input-missing",
    "input-too-old",
    "waiting-for-all",
    "waiting-for-upstream",
    "debouncing",
    "min-interval",
}
SKIP = {"up-to-date", "policy-off", "not-auto"}
ERROR = {"evaluation-failed"}


def _allowed(url: str, table: str, column: str) -> set[str]:
    """Return the values in the CHECK constraint `column IN (...)` of a table."""
    with psycopg.connect(url) as conn:
        rows = conn.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s::regclass AND conname = %s",
            [table, f"{table}_{column}_check"],
        ).fetchall()
    assert len(rows) == 1, f"{table}.{column} has no CHECK constraint of its own"
    return set(re.findall(r"'([^']+)'::text", rows[0][0]))


def test_the_database_knows_the_same_run_states(database_url: str) -> None:
    """The states in the table of a run's life are exactly those that the database accepts."""
    assert _allowed(database_url, "runs", "status") == set(TRANSITIONS) == set(RunStatus)


def test_the_database_knows_the_same_triggers_and_outcomes(database_url: str) -> None:
    """Trigger types and outcomes are the same in Python and in SQL."""
    assert _allowed(database_url, "runs", "trigger_type") == set(TriggerType)
    assert _allowed(database_url, "decisions", "outcome") == set(Outcome)


def test_active_states_are_those_with_a_way_on() -> None:
    """A run is active exactly as long as another state can follow."""
    assert {status for status, following in TRANSITIONS.items() if following} == ACTIVE


def test_every_transition_leads_to_a_state_and_says_why() -> None:
    """The table is closed, has no loops on one state, and every arrow has its reason."""
    for status, following in TRANSITIONS.items():
        assert status not in following
        assert set(following) <= set(TRANSITIONS)
        assert all(following.values())


def test_every_state_can_be_reached() -> None:
    """A new run is queued, and every other state follows from there."""
    reached = {RunStatus.QUEUED}
    while following := {later for status in reached for later in TRANSITIONS[status]} - reached:
        reached |= following
    assert reached == set(RunStatus)


def test_the_reason_codes_are_those_promised() -> None:
    """The codes that users and checks rely on are all there, and no others."""
    assert set(Reason) == RUN | HOLD | SKIP | ERROR


def test_blocking_holds_are_holds() -> None:
    """Only a hold can have an end that is worth waiting for."""
    assert set(BLOCKING_HOLDS) < HOLD


duration = st.integers(min_value=0, max_value=10**12)
words = st.text(min_size=1, max_size=20)
freshness = st.builds(
    Freshness,
    ttl_ms=st.none() | duration,
    cadence_ms=st.none() | duration,
    offset_ms=duration,
    cron=st.none() | words,
    max_age_ms=st.none() | duration,
)
policies = st.builds(
    Policy,
    declared=st.booleans(),
    automatic=st.booleans(),
    on_missing=st.booleans(),
    when=st.sampled_from(When),
    priority=st.integers(),
    max_delay_ms=st.none() | duration,
    backoff=st.builds(Backoff, base_ms=st.none() | duration, max_ms=st.none() | duration, budget=st.integers(1, 100)),
    quiet_hours=st.lists(
        st.builds(QuietHours, start=words, end=words, days=st.lists(st.integers(0, 6), unique=True).map(tuple)),
        max_size=2,
    ).map(tuple),
    parameter_defaults=st.dictionaries(words, st.none() | st.booleans() | st.integers() | words, max_size=3),
    inputs=st.lists(
        st.builds(InputPolicy, asset_id=words, triggers=st.booleans(), max_age_ms=st.none() | duration), max_size=3
    ).map(tuple),
    outputs=st.lists(
        st.builds(OutputPolicy, asset_id=words, enabled=st.booleans(), optional=st.booleans(), freshness=freshness),
        max_size=3,
    ).map(tuple),
)


@settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine says nothing about the policies
@given(policies)
def test_a_policy_survives_its_json_form(policy: Policy) -> None:
    """What the store keeps as JSON comes back as the same policy."""
    assert Policy.from_json(json.loads(json.dumps(policy.as_json()))) == policy


@pytest.mark.parametrize("field", ["declared", "automatic"])
def test_a_policy_without_its_required_fields_is_refused(field: str) -> None:
    """Stored data that is not a whole policy is an error, not a default."""
    data = Policy(declared=True, automatic=True).as_json()
    del data[field]
    with pytest.raises(TypeError, match=field):
        Policy.from_json(data)


@settings(deadline=None)
@given(
    last=st.integers(0, 2_600),
    skipped=st.sets(st.integers(1, 2_600), max_size=30),
    part=st.slices(40),
    number=st.integers(0, 3_000),
    most=st.integers(1, 700),
)
def test_deliveries_are_a_sequence_of_those_that_are_not_skipped(
    last: int, skipped: set[int], part: slice, number: int, most: int
) -> None:
    """Length, items, slices and the part after a number are those of a list, however small the pages are."""
    known = DeliveryRange(last, sorted(one for one in skipped if one <= last))
    everything = [Delivery(one, None, None, None, "") for one in range(1, last + 1)]
    lazy = Deliveries(known, lambda first, to: everything[first - 1 : min(to, first - 1 + most)])
    expected = [one for one in everything if one.number not in skipped]
    assert (len(lazy), list(lazy), list(reversed(lazy))) == (len(expected), expected, expected[::-1])
    assert list(lazy[part]) == expected[part]
    assert list(lazy.after(number)) == [one for one in expected if one.number > number]
    assert list(lazy[part].after(None)) == expected
    if expected:
        assert (lazy[0], lazy[-1]) == (expected[0], expected[-1])
    with pytest.raises(IndexError):
        lazy[len(expected)]


def test_a_missing_delivery_is_an_error() -> None:
    """A store that has lost a delivery must not look like one that is read completely."""
    with pytest.raises(JobError, match="delivery 2 is missing"):
        list(Deliveries(DeliveryRange(2), lambda first, _: [Delivery(1, None, None, None, "")][first - 1 :]))
