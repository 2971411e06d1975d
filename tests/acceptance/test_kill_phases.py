"""kill -9 of the runner, of Spark's JVM and of the worker at every phase of a write, each held at its very place."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from tests.acceptance.deployment import Deployment
from tests.acceptance.kill_deployment import APPEND, OVERWRITE, KillTarget, prepared, survives

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.full]

CASES = [
    *product((*OVERWRITE, "finished"), ("runner", "jvm", "worker")),
    *zip(APPEND, ("worker", "runner", "jvm"), strict=True),  # what differs is where the rows go: one victim for each
    ("publishing", "worker"),
    ("published", "worker"),
]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, module_database_url: str) -> Iterator[KillTarget]:
    """One for all cases."""
    root = tmp_path_factory.mktemp("phases") / "project"
    with prepared(Deployment(root, module_database_url), root / ".freshline" / "warehouse") as target:
        yield target


@pytest.mark.parametrize(("phase", "victim"), CASES, ids=lambda part: part)
@pytest.mark.timeout(400)
def test_a_kill_at_this_phase_leaves_the_old_version_or_the_new_one(
    target: KillTarget, phase: str, victim: str
) -> None:
    """Nothing partial is published, the previous version stays readable, the same run completes, leftovers go.

    What is appended, and what a consumer reads of it as new, has every row exactly once over all kills.
    """
    survives(target, phase, victim)
