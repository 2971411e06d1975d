"""Updates (scenarios 0 to 8): nothing is lost, nothing is doubled."""

from __future__ import annotations

from tests.lab import Lab, workflow


def test_one_report_runs_each_descendant_once(lab: Lab) -> None:
    """A three-level graph: one report leads to exactly one automatic run per descendant, in order."""
    lab.apply(workflow("b", "a"), workflow("c", "b"), workflow("d", "c"))
    lab.report("a", "1")
    assert lab.work() == ["b", "c", "d"]
    assert lab.work() == []
    assert {run["trigger"]["type"] for run in lab.runs()} == {"auto-materialize"}
    lab.report("a", "2")
    assert lab.work() == ["b", "c", "d"]
    assert [run["trigger"]["reason"] for run in lab.runs()[3:]] == ["upstream-update"] * 3
    assert lab.forgotten() == 0
