"""docs/doctor.md describes every check as the code defines it."""

from __future__ import annotations

import pytest

from freshline.delta.examine import DELTA_LOG
from freshline.store.doctor import examine
from freshline.store.doctor.checks import STORE_CHECKS, Check
from freshline.store.doctor.contents import HEAD_ROWS, HEAD_UNREAD
from freshline.store.doctor.warehouse import WAREHOUSE_CHECKS
from tests.docs.pages import DOCTOR, code


@pytest.mark.parametrize(
    ("section", "checks"),
    [
        ("The store", STORE_CHECKS),
        ("The warehouse", (*WAREHOUSE_CHECKS, DELTA_LOG)),
        ("The rows", (HEAD_ROWS, HEAD_UNREAD)),
    ],
)
def test_every_check_is_told_with_its_severity_and_its_repair(section: str, checks: tuple[Check, ...]) -> None:
    """The same checks in the same order."""
    rows = DOCTOR.table(section)
    told = [(code(check), severity, repair != "no") for check, severity, _, _, repair in rows]
    assert told == [(check.id, check.severity.value, check.repair is not None) for check in checks]


def test_the_bounds_are_those_of_the_code() -> None:
    """How late is late, and how far clocks may be apart."""
    assert examine.LATE_MS == 5 * 60_000
    assert "5 minutes, or 10 polls, or 4 leases" in DOCTOR.prose
    assert f"within {examine.CLOCKS_MS // 1000} s" in DOCTOR.prose
