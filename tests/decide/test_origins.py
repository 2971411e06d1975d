"""When the root of a cause happened (docs/semantics.md#R13.5)."""

from __future__ import annotations

from dataclasses import replace

from freshline.decide.causes import find_cause, origin_of
from freshline.model.state import Pending
from tests.decide.builders import Scenario, clock, given


def origin(scenario: Scenario) -> object:
    """Return the origin of the cause."""
    cause = find_cause(scenario.policy, scenario.state)
    assert cause is not None
    return origin_of(scenario.policy, scenario.state, cause)


def changed(*origins: str) -> Scenario:
    """Return a scenario in which each input changed at nine, for a root at these times."""
    scenario = given().output("b")
    for number, at in enumerate(origins):
        scenario = scenario.input(f"a{number}", head="2", read="1", at="09:00")
        *others, last = scenario.state.inputs
        pending = Pending(clock("09:00"), clock("09:00"), 1, origin=clock(at))
        scenario = scenario.facts(inputs=(*others, replace(last, pending=pending)))
    return scenario.facts(succeeded_at=clock("07:00"), applied_at=clock("06:00"))


def test_the_earliest_root_counts() -> None:
    """Not when the changes arrived: recomputed days have the origin of what they were recomputed for."""
    assert origin(changed("08:20", "08:10")) == clock("08:10")


def test_a_change_without_a_known_root_is_its_own() -> None:
    """A reported source."""
    scenario = given().input("a", head="2", read="1", at="08:40").output("b").facts(succeeded_at=clock("07:00"))
    assert origin(scenario) == clock("08:40")


def test_data_from_before_the_workflow_waits_since_the_apply() -> None:
    """A new workflow on old data."""
    assert origin(changed("05:00").never_ran().facts(applied_at=clock("06:00"))) == clock("06:00")


def test_a_changed_job_has_the_time_of_its_apply() -> None:
    """And an expiry that of its end."""
    assert origin(changed("08:10").redefined()) == clock("06:00")
    expired = given().input("a", head="1", read="1").output("b", expired="08:15")
    assert origin(expired) == clock("08:15")
