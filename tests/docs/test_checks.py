"""docs/checks.md lists every check, and every example is valid."""

from __future__ import annotations

from typing import get_args

from freshline.definitions.loading import document
from freshline.definitions.schema.checks import Check, CheckKind
from freshline.store.runs.events import CHECK_FIELDS, MOST_CHECKS
from tests.docs.pages import CHECKS, code


def test_every_check_has_a_row_with_an_example() -> None:
    """The examples are valid, and no kind is left out."""
    rows = [document.parse(code(cell), "x.yaml")[0].data for cell, _ in CHECKS.table("Every check")]
    assert {Check.model_validate(row).kind for row in rows} == set(get_args(CheckKind))


def test_severities_are_told() -> None:
    """Those that a check takes, the default first."""
    known = get_args(Check.model_fields["severity"].annotation)
    assert [code(cell) for cell, _ in CHECKS.table("Severity")] == list(known)
    assert Check.model_fields["severity"].default == known[0]


def test_the_limits_of_the_event_are_told() -> None:
    """Its fields and how many results it carries."""
    (row,) = [said for place, said in CHECKS.table("Where the results are") if "asset.produced" in place]
    assert f"at most {MOST_CHECKS}" in row
    assert row.startswith("`checks`: label, severity, passed and observed")
    assert CHECK_FIELDS == ("check", "severity", "passed", "observed")
