"""One minute of chaos; `make chaos MINUTES=60` runs it for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.__main__ import chaos

SEED = 4


@pytest.mark.full
@pytest.mark.process
def test_nothing_is_lost_or_doubled_whatever_is_killed(tmp_path: Path) -> None:
    """Three materializers and workers, killed, stopped, cut off, redefined, restored and without disk under load.

    See docs/scenarios.md#scenario-6, docs/scenarios.md#scenario-10, docs/scenarios.md#scenario-23,
    docs/scenarios.md#scenario-24, docs/scenarios.md#scenario-25, docs/scenarios.md#scenario-27.
    """
    verdict = chaos(tmp_path, minutes=1, seed=SEED)
    assert verdict.violations == []
    assert verdict.kills >= 20
    assert verdict.restores == 1
    assert sum(verdict.redefinitions.values()) >= 10
    assert verdict.left_out or sum(verdict.faults[f"fill the disk of the {name}"] for name in ("database", "project"))
    assert verdict.files >= 50
    assert verdict.runs["succeeded"] >= 30
    assert verdict.answers["200"] >= 100
    assert verdict.answers["202"] >= 10
